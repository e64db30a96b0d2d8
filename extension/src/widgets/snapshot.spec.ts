import { describe, expect, it } from 'vitest';
import { KernelTelemetry } from '../events/kernel-telemetry.js';
import { devices, run, T0 } from '../events/samples.spec-data.js';
import { asSnapshot, type Snapshot, SnapshotReader } from './snapshot.js';

function snapshot(first: number, count: number, fields: Partial<Snapshot> = {}): Snapshot {
  const rows = Array.from({ length: count }, (_, at) => [first + at, T0 + at, 10, 1, 2, 0, 6, 1, 1]);
  const indices = rows.map(([index = 0]) => index);
  return {
    v: 1,
    time: T0,
    kernelId: null,
    devices: devices(8),
    run: run(),
    throughput: null,
    steps: rows,
    metrics: { loss: [indices, indices.map(index => 1 / (index + 1))] },
    commands: [],
    ...fields
  };
}

describe('a snapshot', () => {
  it('fills the same model as the telemetry of a bridge', () => {
    const kernel = new KernelTelemetry('widget');
    new SnapshotReader(kernel).read(snapshot(0, 20));
    expect(kernel.devices?.devices).toHaveLength(8);
    expect(kernel.runs.current?.steps.length).toBe(20);
    expect(kernel.runs.current?.steps.deviceKnown(3)).toBe(true);
    expect(kernel.runs.current?.series.get('loss')?.length).toBe(20);
  });

  it('that overlaps an earlier one adds only new data', () => {
    const kernel = new KernelTelemetry('widget');
    const reader = new SnapshotReader(kernel);
    reader.read(snapshot(0, 20));
    reader.read(snapshot(10, 20));
    reader.read(snapshot(10, 20));
    const { current } = kernel.runs;
    expect(current?.steps.length).toBe(30);
    expect(current?.steps.index(29)).toBe(29);
    expect(current?.series.get('loss')?.length).toBe(30);
  });

  it('of another run starts over', () => {
    const kernel = new KernelTelemetry('widget');
    const reader = new SnapshotReader(kernel);
    reader.read(snapshot(0, 20));
    reader.read(snapshot(0, 5, { run: run({ run: 'r2' }) }));
    expect(kernel.runs.current?.id).toBe('r2');
    expect(kernel.runs.current?.steps.length).toBe(5);
    expect(kernel.runs.current?.series.get('loss')?.length).toBe(5);
  });

  it.each([null, undefined, 7, {}, { v: 2, steps: [], metrics: {}, commands: [] }])(
    'is not created from %j',
    value => {
      expect(asSnapshot(value)).toBeNull();
    }
  );
});
