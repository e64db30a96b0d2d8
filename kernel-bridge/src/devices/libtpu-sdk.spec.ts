/**
 * Tests the stand-in metric server against an independent client: libtpu's own SDK. `npm run test:libtpu` runs it, with a
 * Python that has libtpu (684 MB); otherwise it is skipped.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { MetricServer } from './testing/metric-server.js';
import { dutyPercent, GENERATIONS, serve, usedBytes } from './testing/traces.js';

const PYTHON = process.env['TPULAB_LIBTPU_PYTHON'] ?? '';
/** The SDK supports only this port. */
const PORT = 8431;

const CLIENT = `
import json
from libtpu.sdk import tpumonitoring as sdk
names = ["hbm_capacity_total", "hbm_capacity_usage", "duty_cycle_pct"]
print(json.dumps({"known": sdk.list_supported_metrics(), **{name: sdk.get_metric(name).data() for name in names}}))
`;

async function request(): Promise<Record<string, string[]>> {
  const { stdout } = await promisify(execFile)(PYTHON, ['-c', CLIENT], {
    // Off a TPU the SDK would query the metadata server for minutes.
    env: { ...process.env, TPU_SKIP_MDS_QUERY: '1' },
    timeout: 120_000
  });
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as Record<string, string[]>;
}

describe.skipIf(PYTHON === '')(
  "libtpu's SDK as a client of the stand-in server",
  { timeout: 240_000 },
  () => {
    let server: MetricServer | null = null;

    afterEach(async () => server?.[Symbol.asyncDispose]());

    it.each(GENERATIONS.filter(({ name }) => ['v4', 'v5e', 'v6e'].includes(name)))(
      'reads the metrics that the server has for $name',
      async generation => {
        server = await MetricServer.start(PORT);
        serve(server, generation);
        const reported = await request();
        const devices = Array.from(
          { length: generation.chips * generation.devicesPerChip },
          (_, index) => index
        );
        expect(reported['hbm_capacity_total']?.map(Number)).toEqual(
          devices.map(() => generation.hbmBytesPerDevice)
        );
        expect(reported['hbm_capacity_usage']?.map(Number)).toEqual(
          devices.map(index => usedBytes(generation, index))
        );
        expect(reported['duty_cycle_pct']?.map(Number)).toEqual(devices.map(index => dutyPercent(index)));
        expect(server.requests.map(({ metric_name }) => metric_name)).toContain(
          'tpu.runtime.hbm.memory.usage.bytes'
        );
      }
    );

    it('returns nothing, and no error, if no process serves metrics; and lists the metrics that only it can read', async () => {
      const reported = await request();
      expect(reported['hbm_capacity_total']).toEqual([]);
      expect(reported['known']).toEqual(
        expect.arrayContaining(['tensorcore_util', 'ici_link_health', 'tpu_throttle_score'])
      );
    });
  }
);
