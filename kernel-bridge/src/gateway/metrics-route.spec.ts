import type { StoredRunSummary, MachineSample } from '@tpulab/protocol';
import { describe, expect, it, vi } from 'vitest';
import { TemporaryGateway } from '../testing/temporary-gateway.js';
import { metricsText } from './metrics-route.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const none = { hbmBandwidthPercent: null, idleS: null, hloQueueSize: null, chip: null };
const sample = {
  host: { cpuPercent: 50, memoryUsedBytes: 4, memoryTotalBytes: 8 },
  devices: [
    { ...none, ordinal: 0, hbmUsedBytes: 10, hbmTotalBytes: 16, dutyCyclePercent: 97.5 },
    { ...none, ordinal: 1, hbmUsedBytes: null, hbmTotalBytes: null, dutyCyclePercent: null }
  ]
} as unknown as MachineSample;

function run(name: string, fields: Partial<StoredRunSummary> = {}): StoredRunSummary {
  return {
    ...{ key: `k.${name}`, kernelId: 'k', run: 'r1', name, state: 'running', startedAt: 0, lastAt: 0 },
    ...{ steps: 7, totalSteps: null, config: {}, metrics: { loss: 0.5 }, stepMs: 20 },
    ...fields
  };
}

describe('the metrics for Prometheus', () => {
  it('name kernels, running runs, devices and journals, escape names, and omit unknown values', async () => {
    const text = await metricsText({
      kernels: () => ['idle', 'busy', 'idle'],
      runs: async () => [run('a "b"\n\\'), run('over', { state: 'finished' })],
      machine: async () => sample,
      journalBytes: async () => 123
    });
    const lines = text.trimEnd().split('\n');
    const name = String.raw`kernel="k",run="r1",name="a \"b\"\n\\"`;
    expect(lines).toEqual(
      expect.arrayContaining([
        'tpulab_kernels{state="idle"} 2',
        `tpulab_run_steps_total{${name}} 7`,
        `tpulab_run_step_seconds{${name}} 0.02`,
        `tpulab_run_metric{${name},metric="loss"} 0.5`,
        'tpulab_device_duty_cycle_ratio{device="0"} 0.975',
        'tpulab_host_cpu_ratio 0.5',
        'tpulab_journal_bytes 123'
      ])
    );
    expect(text).not.toContain('over');
    expect(text).not.toContain('device="1"');
    // Each line is a comment, or a name with labels and a number.
    for (const line of lines) {
      expect(line).toMatch(/^(# (HELP|TYPE) tpulab_\w+ .+|tpulab_\w+(\{.*\})? [0-9.e+-]+)$/);
    }
  });

  it('are served by a gateway to holders of its token', async () => {
    await using bridge = await TemporaryGateway.start();
    await bridge.gateway.ready;
    const { status, headers, body } = await bridge.rest('GET', '/metrics');
    expect([status, headers.get('content-type')]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
    expect(body).toContain('# TYPE tpulab_host_memory_bytes gauge');
    expect((await bridge.rest('GET', '/metrics', { token: 'wrong' })).status).toBe(403);
  });
});
