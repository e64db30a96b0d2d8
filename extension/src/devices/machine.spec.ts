import { describe, expect, it } from 'vitest';
import { deviceFigures, machineSample, T0 } from '../events/samples.spec-data.js';
import { figuresOf, historyFigures } from './figures.js';
import { RANGES, windowOf } from './history-window.js';
import { MachineTelemetry } from './machine-telemetry.js';
import { SeriesRing } from './series-ring.js';

describe('MachineTelemetry', () => {
  it('records each sample once, and starts over with another gateway', () => {
    const machine = new MachineTelemetry('bridge');
    machine.applySample(machineSample(5));
    machine.applySample(machineSample(5));
    machine.applySample(machineSample(4));
    expect(machine.ring.length).toBe(1);
    machine.applySample({ ...machineSample(1), gatewayId: 'next', machine: { ...machineSample(9).machine } });
    expect(machine.ring.length).toBe(2);
    machine.dispose();
  });
});

describe('figures of a machine', () => {
  it('are totals of all devices, and none where unknown', () => {
    const devices = [
      deviceFigures(0, { dutyCyclePercent: 40 }),
      deviceFigures(1, { dutyCyclePercent: null })
    ];
    const figures = new Map(figuresOf(machineSample(1, { devices }).machine));
    expect(figures.get('duty.mean')).toBe(40);
    expect(figures.get('hbm.max')).toBe(11 * 1_024 ** 3);
    expect(figures.has('tensorCore.mean')).toBe(false);
    expect(figures.has('host.diskReadBytesPerS')).toBe(false);
  });

  it('have the TensorCores of those devices that the SDK reports', () => {
    const sdk = { time: T0, tensorCorePercent: [30, null, 50], throttlePercent: [], links: [] };
    expect(new Map(figuresOf(machineSample(1, { sdk }).machine)).get('tensorCore.mean')).toBe(40);
  });

  it('of a history have the same names as in a sample', () => {
    const column = (...mean: (number | null)[]) => ({ min: mean, mean, max: mean });
    const figures = historyFigures({
      tierS: 10,
      times: [1, 2],
      series: {
        'device.0.dutyCyclePercent': column(80, null),
        'device.1.dutyCyclePercent': column(60, null),
        'device.1.tensorCorePercent': column(null, 20),
        'host.cpuPercent': column(5, null)
      }
    });
    expect([...(figures.get('duty.mean') ?? [])]).toEqual([70, Number.NaN]);
    expect([...(figures.get('duty.min') ?? [])]).toEqual([60, Number.NaN]);
    expect([...(figures.get('tensorCore.mean') ?? [])]).toEqual([Number.NaN, 20]);
    expect([...(figures.get('host.cpuPercent') ?? [])]).toEqual([5, Number.NaN]);
  });
});

describe('the window of a chart', () => {
  const ring = (times: readonly number[]): SeriesRing => {
    const made = new SeriesRing(16);
    times.forEach((time, at) => made.push(time, [['host.cpuPercent', at]]));
    return made;
  };

  it('continues with live samples where the history ends, and has none twice', () => {
    const history = {
      tierS: 1,
      times: [T0, T0 + 1_000],
      series: { 'host.cpuPercent': { min: [1, 2], mean: [1, 2], max: [1, 2] } }
    };
    const live = ring([T0 + 500, T0 + 1_500, T0 + 2_000, T0 + 2_500]);
    const [times, cpu] = windowOf(history, live, ['host.cpuPercent'], RANGES.minutes, T0 + 3_000);
    expect(times).toEqual([T0, T0 + 1_000, T0 + 2_000, T0 + 2_500]);
    expect(cpu).toEqual([1, 2, 2, 3]);
  });

  it('breaks the line where there are no samples', () => {
    const live = ring([T0, T0 + 60_000]);
    const [, cpu] = windowOf(null, live, ['host.cpuPercent'], RANGES.minutes, T0 + 60_000);
    expect(cpu).toEqual([0, null, 1]);
  });

  it('omits samples older than its range', () => {
    const live = ring([T0, T0 + 900_000]);
    const [times] = windowOf(null, live, ['host.cpuPercent'], RANGES.minutes, T0 + 900_000);
    expect(times).toEqual([T0 + 900_000]);
  });
});

describe('SeriesRing', () => {
  it('overwrites the oldest row; a series is unknown before its first value', () => {
    const made = new SeriesRing(3);
    for (let at = 0; at < 5; at += 1) {
      made.push(at, at < 3 ? [['a', at]] : [['b', at]]);
    }
    expect([0, 1, 2].map(row => made.time(row))).toEqual([2, 3, 4]);
    expect([0, 1, 2].map(row => made.value('a', row))).toEqual([2, Number.NaN, Number.NaN]);
    expect([0, 1, 2].map(row => made.value('b', row))).toEqual([Number.NaN, 3, 4]);
  });
});
