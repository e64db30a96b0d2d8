/** The metrics of one run or of several, as the columns of a chart. */
import type { Run } from '../events/run.js';
import type { KeptRun } from './kept-runs.js';

/** What a chart needs of a run: of one that goes on, or of one that was kept. */
export interface MetricSource {
  readonly key: string;
  readonly label: string;
  /** Points of a metric; null when the run does not have it. */
  series(name: string): MetricPoints | null;
}

export interface MetricPoints {
  readonly steps: ArrayLike<number>;
  /** NaN and infinities are gaps in a chart. */
  readonly values: ArrayLike<number>;
  /** Unix milliseconds of the steps, where they are known. */
  readonly times?: ArrayLike<number>;
  /** The newest value, also when it is not among the points. */
  readonly last?: number;
  /** The step from which on every value has been NaN or infinite. */
  readonly nonFiniteSince?: number | null;
}

/** What a chart counts along: steps, or seconds since the first point of each run. */
export type MetricAxis = 'step' | 'time';

export interface ColumnOptions {
  readonly axis?: MetricAxis;
  /** Weight of what came before in the moving mean, 0 (none) to below 1. */
  readonly smoothing?: number;
}

/** True where every run knows when its steps were. */
export function hasTimes(sources: readonly MetricSource[], name: string): boolean {
  return sources.every(source => {
    const points = source.series(name);
    return points === null || (points.times !== undefined && Number.isFinite(points.times[0]));
  });
}

/** The axis, then a column for each run; null where a run has no point. Points of a run come in the order of their steps. */
export function metricColumns(
  sources: readonly MetricSource[],
  name: string,
  { axis = 'step', smoothing = 0 }: ColumnOptions = {}
): (number | null)[][] {
  const all = sources.map(source => {
    const points = source.series(name);
    return (
      points && { at: axisOf(points, axis), values: smoothed(Array.from(points.values, plotted), smoothing) }
    );
  });
  const [only] = all;
  if (all.length === 1 && only) {
    return [only.at, only.values];
  }
  const sorted = [...new Set(all.flatMap(points => points?.at ?? []))].sort((a, b) => a - b);
  const rowOf = new Map(sorted.map((at, row) => [at, row]));
  const columns = all.map(points => {
    const column = new Array<number | null>(sorted.length).fill(null);
    points?.at.forEach((at, point) => {
      column[rowOf.get(at) ?? 0] = points.values[point] ?? null;
    });
    return column;
  });
  return [sorted, ...columns];
}

function axisOf({ steps, times }: MetricPoints, axis: MetricAxis): number[] {
  const first = times?.[0] ?? 0;
  return axis === 'time' && times ? Array.from(times, time => (time - first) / 1_000) : Array.from(steps);
}

/** The exponential moving mean of TensorBoard, without its bias towards 0 at the start. */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) {
    return [...values];
  }
  let [mean, total] = [0, 0];
  return values.map(value => {
    if (value === null) {
      return null;
    }
    mean = weight * mean + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return mean / total;
  });
}

function plotted(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** Loss first, because it is what people look at; then as the run names them. */
export function metricNames(names: Iterable<string>): string[] {
  return [...new Set(names)].sort((a, b) => rank(a) - rank(b));
}

function rank(name: string): number {
  return name === 'loss' ? 0 : /loss/i.test(name) ? 1 : 2;
}

/** The run that is looked at, then those it is compared with. */
export function sourcesOf(
  run: Run,
  runs: readonly Run[],
  kept: readonly KeptRun[],
  compared: readonly string[]
): MetricSource[] {
  return [
    sourceOf(run),
    ...runs.filter(other => other !== run && compared.includes(other.key)).map(sourceOf),
    ...kept.flatMap(one => (compared.includes(one.key) ? (keptSource(one) ?? []) : []))
  ];
}

function sourceOf(run: Run): MetricSource {
  return {
    key: run.key,
    label: run.name,
    series: name => run.series.get(name) ?? null
  };
}

/** Null until it was opened. */
export function keptSource({ key, summary, body }: KeptRun): MetricSource | null {
  return body && { key, label: summary.name, series: name => body.series[name] ?? null };
}
