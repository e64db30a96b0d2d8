/** The last minutes, hours or days of a machine: the bridge's history, and the samples since then. */
import type { DevicesHistory } from '@tpulab/protocol';
import { type Figure, historyFigures } from './figures.js';
import type { TierS } from './machine-source.js';
import type { SeriesRing } from './series-ring.js';

export interface Range {
  readonly tierS: TierS;
  readonly lengthMs: number;
  /** How often the history is requested again; live samples fill the time between. */
  readonly refreshMs: number;
}

const MINUTE_MS = 60_000;

export const RANGES = {
  minutes: { tierS: 1, lengthMs: 10 * MINUTE_MS, refreshMs: 5 * MINUTE_MS },
  hours: { tierS: 10, lengthMs: 120 * MINUTE_MS, refreshMs: MINUTE_MS },
  days: { tierS: 60, lengthMs: 2_880 * MINUTE_MS, refreshMs: 5 * MINUTE_MS }
} as const satisfies Record<string, Range>;
export type RangeName = keyof typeof RANGES;

/** Samples come at least every ten seconds; after a longer silence the line is broken. */
const SILENCE_MS = 35_000;

/** Chart columns: times in milliseconds, then one column for each figure; null where unknown. */
export function windowOf(
  history: DevicesHistory | null,
  ring: SeriesRing,
  figures: readonly Figure[],
  range: Range,
  now: number
): (number | null)[][] {
  const from = now - range.lengthMs;
  const times: number[] = [];
  const columns: (number | null)[][] = figures.map(() => []);
  const silence = Math.max(SILENCE_MS, range.tierS * 2_500);
  const add = (time: number, valueOf: (figure: Figure) => number): void => {
    const last = times.at(-1);
    if (last !== undefined && time - last > silence) {
      times.push(last + 1);
      columns.forEach(column => column.push(null));
    }
    times.push(time);
    columns.forEach((column, at) => {
      const figure = figures[at];
      const value = figure === undefined ? Number.NaN : valueOf(figure);
      column.push(Number.isNaN(value) ? null : value);
    });
  };
  if (history) {
    const past = historyFigures(history);
    history.times.forEach((time, row) => {
      if (time >= from) add(time, figure => past.get(figure)?.[row] ?? Number.NaN);
    });
  }
  const since = (history?.times.at(-1) ?? 0) + range.tierS * 1_000;
  for (let row = 0; row < ring.length; row += 1) {
    const time = ring.time(row);
    if (time >= from && time >= since) add(time, figure => ring.value(figure, row));
  }
  return [times, ...columns];
}
