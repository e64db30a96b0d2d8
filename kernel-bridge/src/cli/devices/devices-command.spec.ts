import { Value } from '@sinclair/typebox/value';
import { DevicesPage } from '@tpulab/protocol';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { CHIPS } from '../../../../machines/src/chips/chip-data.js';
import { freePort } from '../../testing/free-port.js';
import { MetricServer } from '../../devices/testing/metric-server.js';
import { GENERATIONS, serve } from '../../devices/testing/traces.js';
import { TemporaryGateway } from '../../testing/temporary-gateway.js';
import { runCommand } from '../testing/command-line.js';
import { devicesCommand } from './devices-command.js';
import { devicesText } from './devices-command.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let metrics: MetricServer;
let bridge: TemporaryGateway;

beforeAll(async () => {
  metrics = await MetricServer.start(await freePort());
  serve(
    metrics,
    GENERATIONS.find(({ name }) => name === 'v5p')!
  );
  bridge = await TemporaryGateway.start({
    env: { ...process.env, TPU_RUNTIME_METRICS_PORTS: String(metrics.port), TPU_SKIP_MDS_QUERY: '1' }
  });
  await bridge.gateway.ready;
});

afterAll(async () => {
  await bridge[Symbol.asyncDispose]();
  await metrics[Symbol.asyncDispose]();
});

describe('tpulab devices', () => {
  it('shows the machine and its devices', async () => {
    // The runtime has one second to answer; on a busy machine, only a later sample contains its values.
    await vi.waitFor(
      async () => {
        const { stdout, error } = await runCommand(devicesCommand, '--state-dir', bridge.folder);
        expect(error).toBeNull();
        expect(stdout).toContain('in use');
        expect(stdout).toContain('device 3  HBM 47.5 GiB of 95.0 GiB  duty 53%  bandwidth 13%');
      },
      { timeout: 60_000, interval: 200 }
    );
  });

  it('prints JSON as the protocol describes it', async () => {
    const { stdout } = await runCommand(devicesCommand, '--state-dir', bridge.folder, '--json');
    expect([...Value.Errors(DevicesPage, JSON.parse(stdout))]).toEqual([]);
  });

  it('watches until it is ended', async () => {
    const end = new AbortController();
    let lines = 0;
    const streams = {
      stdout: { write: () => ++lines >= 2 && end.abort() },
      stderr: { write: () => true }
    };
    await devicesCommand(streams, end.signal).parseAsync(
      ['--watch', '--json', '--state-dir', bridge.folder],
      { from: 'user' }
    );
    expect(lines).toBe(2);
  });

  it('reports which gateway is missing', async () => {
    const { error } = await runCommand(devicesCommand, '--state-dir', `${bridge.folder}/none`);
    expect(error).toMatchObject({ code: 'no_gateway' });
  });
});

describe('the text of devices', () => {
  const unknown = { cpuPercent: null, cores: 2, load1: null, memoryUsedBytes: null, memoryTotalBytes: null };
  const page: DevicesPage = {
    accelerator: { type: 'v6e-1', workerId: null, processBounds: null, chipsPerProcessBounds: null },
    chips: [
      {
        index: 0,
        pciAddress: '0000:00:04.0',
        pciDevice: '0x006f',
        name: 'v6e',
        node: '/dev/vfio/0',
        owners: [{ pid: 7, command: 'python3', kernelId: 'k' }]
      },
      {
        index: 1,
        pciAddress: '0000:00:05.0',
        pciDevice: '0x00aa',
        name: null,
        node: '/dev/vfio/1',
        owners: []
      }
    ],
    specs: CHIPS.filter(({ name }) => name === 'v6e'),
    sample: {
      time: 0,
      host: {
        ...unknown,
        diskReadBytesPerS: null,
        diskWrittenBytesPerS: null,
        networkReceivedBytesPerS: null,
        networkSentBytesPerS: null
      },
      devices: [],
      metrics: { state: 'failing', detail: 'port 8431: stuck' }
    },
    runtime: { uptimeS: null, errors: null, distributions: [] },
    sampleHz: 2
  };

  it('names the holder of a chip, explains an unknown chip, and why there are no metrics', () => {
    const text = devicesText(page);
    expect(text).toContain('v6e-1: the process that uses the chips does not answer (port 8431: stuck)');
    expect(text).toContain('chip 0  v6e, 918 bf16 TFLOP/s  /dev/vfio/0 held by python3 7 (kernel k)');
    expect(text).toContain('chip 1  unknown (PCI 0x00aa)  /dev/vfio/1, no holder visible to you');
  });
});
