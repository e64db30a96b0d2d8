import { appendFile, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { MachineSample } from '@tpulab/protocol';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { History, HistoryFile, type HistoryPoint, HistoryTier } from './history.js';

const log = pino({ level: 'silent' });
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-history-'));
});

afterEach(async () => rm(folder, { recursive: true, force: true }));

function sample(time: number, cpuPercent: number | null, used: number[] = []): MachineSample {
  return {
    time,
    host: {
      cpuPercent,
      cores: 2,
      load1: null,
      memoryUsedBytes: null,
      memoryTotalBytes: null,
      diskReadBytesPerS: null,
      diskWrittenBytesPerS: null,
      networkReceivedBytesPerS: null,
      networkSentBytesPerS: null
    },
    devices: used.map((hbmUsedBytes, ordinal) => ({
      ordinal,
      chip: ordinal,
      hbmUsedBytes,
      hbmTotalBytes: null,
      dutyCyclePercent: null,
      hbmBandwidthPercent: null,
      idleS: 1,
      hloQueueSize: null
    })),
    metrics: { state: 'serving', detail: null }
  };
}

describe('history', () => {
  it('has min, mean and max of every series in each tier, and no value where none was known', async () => {
    await using history = new History({ folder, log });
    history.add(sample(10_000, 10));
    history.add(sample(10_500, 30, [7]));
    history.add(sample(11_000, null, [9]));
    expect(history.read(1)).toEqual({
      tierS: 1,
      times: [10_000, 11_000],
      series: {
        'host.cpuPercent': { min: [10, null], mean: [20, null], max: [30, null] },
        'device.0.hbmUsedBytes': { min: [7, 9], mean: [7, 9], max: [7, 9] }
      }
    });
    expect(history.read(10).series['device.0.hbmUsedBytes']).toEqual({ min: [7], mean: [8], max: [9] });
    expect(history.read(60).times).toEqual([0]);
    expect(history.read(1, 11_000).times).toEqual([11_000]);
  });

  it('has the TensorCore utilisation by device number, while the SDK reports it', () => {
    const history = new History({ folder, log });
    const sdk = { time: 0, tensorCorePercent: [40, null], throttlePercent: [], links: [] };
    history.add({ ...sample(0, 5, [8, 8]), sdk });
    history.add({ ...sample(400, 5, [8, 8]), sdk: { ...sdk, tensorCorePercent: [60, null] } });
    history.add(sample(1_000, 5, [8, 8]));
    const { series } = history.read(1);
    expect(series['device.0.tensorCorePercent']).toEqual({
      min: [40, null],
      mean: [50, null],
      max: [60, null]
    });
    expect(series).not.toHaveProperty('device.1.tensorCorePercent');
  });

  it('is available after a restart, and joins the two halves of a point', async () => {
    {
      await using first = new History({ folder, log });
      for (let n = 0; n < 30; n++) first.add(sample(60_000 + n * 1000, n, [2 ** 33 + n]));
    }
    await using second = new History({ folder, log });
    await second.load();
    expect(second.read(1).times).toHaveLength(30);
    expect(second.read(1).series['device.0.hbmUsedBytes']?.max.at(-1)).toBe(2 ** 33 + 29);
    for (let n = 30; n < 60; n++) second.add(sample(60_000 + n * 1000, n, [0]));
    second.add(sample(120_000, 0));
    const minute = second.read(60);
    expect(minute.times).toEqual([60_000, 120_000]);
    expect(minute.series['host.cpuPercent']).toEqual({ min: [0, 0], mean: [29.5, 0], max: [59, 0] });
  });

  it('reads the lines before a torn line, and appends after it', async () => {
    {
      await using first = new History({ folder, log });
      for (let n = 0; n < 5; n++) first.add(sample(n * 1000, n));
    }
    const file = path.join(folder, '1s.jsonl');
    const whole = await readFile(file, 'utf8');
    for (let cut = 0; cut <= whole.length; cut += 3) {
      await writeFile(file, whole);
      await truncate(file, cut);
      const tier = new HistoryFile({ folder, stepS: 1, points: 100 });
      const left = await tier.load();
      expect(left.map(({ time }) => time)).toEqual([0, 1000, 2000, 3000, 4000].slice(0, left.length));
      await tier.append([{ time: 9000, count: 1, names: ['x'], values: [1, 2, 3] }]);
      const again = await new HistoryFile({ folder, stepS: 1, points: 100 }).load();
      expect(again.at(-1)).toEqual({ time: 9000, count: 1, names: ['x'], values: [1, 2, 3] });
      // A cut exactly at the end of a line leaves that line whole.
      expect(again.length - left.length).toBe(1);
    }
  });

  it('leaves out lines that are not points', async () => {
    await appendFile(
      path.join(folder, '1s.jsonl'),
      '{"names":["a"]}\n[1,1,2,2,2]\n[2,1]\nnull\n["x"]\n[3,1,2,2,2]\n{"names":["a"]}\n[4,1,2,2,2]\n'
    );
    const points = await new HistoryFile({ folder, stepS: 1, points: 9 }).load();
    expect(points.map(({ time }) => time)).toEqual([1, 4]);
  });

  it('uses bounded space, and retains at least the points of one file', async () => {
    const file = new HistoryFile({ folder, stepS: 10, points: 50, maxBytes: 1e6 });
    const small = new HistoryFile({ folder, stepS: 60, points: 1e6, maxBytes: 1000 });
    for (let n = 0; n < 400; n++) {
      const point: HistoryPoint = { time: n, count: 1, names: ['a', 'b'], values: [n, n, n, 1 / 3, 0.5, 1] };
      await file.append([point]);
      await small.append([point]);
    }
    const retained = await new HistoryFile({ folder, stepS: 10, points: 50 }).load();
    expect(retained.length).toBeGreaterThanOrEqual(50);
    expect(retained.length).toBeLessThanOrEqual(100);
    expect(retained.at(-1)?.time).toBe(399);
    for (const name of await readdir(folder)) {
      const { size, mode } = await stat(path.join(folder, name));
      expect([name, mode & 0o777]).toEqual([name, 0o600]);
      if (name.startsWith('60s')) expect(size).toBeLessThan(1100);
    }
  });

  it('continues in memory when it can neither be read nor written', async () => {
    const taken = path.join(folder, 'taken');
    await writeFile(taken, '');
    await using history = new History({ folder: taken, log });
    await history.load();
    history.add(sample(1000, 5));
    history.add(sample(2000, 6));
    await history.write();
    expect(history.read(1).times).toEqual([1000, 2000]);
  });
});

describe('a tier', () => {
  it('drops the oldest points', () => {
    const tier = new HistoryTier({ stepS: 1, points: 3 });
    for (let n = 0; n < 10; n++) tier.add(n * 1000, new Map([['a', n]]));
    expect(tier.points().map(({ time }) => time)).toEqual([6000, 7000, 8000, 9000]);
  });

  it('stays in order when the clock was set back', () => {
    const tier = new HistoryTier({ stepS: 1, points: 9 });
    for (const time of [5000, 6000, 2000, 5000]) tier.add(time, new Map([['a', time]]));
    expect(tier.points().map(({ time, count }) => [time, count])).toEqual([
      [2000, 1],
      [5000, 2],
      [6000, 1]
    ]);
  });
});
