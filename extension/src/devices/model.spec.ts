import type { RuntimeDevice } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { devices } from '../events/samples.spec-data.js';
import { isSimulated, memoryOf, summaryText } from './model.js';
const GIB = 1_024 ** 3;

function tpu(id: number, usedGiB: number): RuntimeDevice {
  return {
    id,
    platform: 'tpu',
    kind: 'TPU v5 lite',
    processIndex: 0,
    memoryUsedBytes: usedGiB * GIB,
    memoryTotalBytes: 16 * GIB,
    memoryPeakBytes: null
  };
}

describe('devices', () => {
  it.each([
    [devices(8), '8 XLA devices, CPU'],
    [devices(1), '1 XLA device, CPU'],
    [devices(0), 'No XLA device'],
    [devices(0, { devices: [tpu(0, 1), tpu(1, 1)] }), '2 XLA devices, TPU v5 lite']
  ])('are summed up in a few words', (message, text) => {
    expect(summaryText(message)).toBe(text);
  });

  it('have memory only where the runtime reports it', () => {
    const [cpu] = devices(1).devices;
    expect(cpu && memoryOf(cpu)).toBeNull();
    expect(memoryOf(tpu(0, 4))).toMatchObject({ fraction: 0.25, nearlyFull: false, text: '4.0 / 16.0 GiB' });
    expect(memoryOf(tpu(0, 15))).toMatchObject({ nearlyFull: true });
    expect(memoryOf({ ...tpu(0, 4), memoryTotalBytes: 0 })).toBeNull();
  });

  it('of the CPU are described correctly: one machine, seen as several', () => {
    expect(isSimulated(devices(8))).toBe(true);
    expect(isSimulated(devices(1))).toBe(false);
    expect(isSimulated(devices(0, { devices: [tpu(0, 1), tpu(1, 1)] }))).toBe(false);
  });
});
