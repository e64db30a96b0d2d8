/** The metrics of one or several runs, as the columns of a chart. */
import { momentOf, wholeSeries, ownValue } from '@tpulab/protocol';
import type { Run } from '../events/run.js';
import type { StoredRun } from './stored-runs.js';

/** The data of a run for a chart: of a live or a stored run. */
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
  /** Unix milliseconds of the steps, where known. */
  readonly times?: ArrayLike<number>;
  readonly tokensPerStep?: number;
  /** The newest value, even if it is not among the points. */
  readonly last?: number;
  /** The step from which on every value has been NaN or infinite. */
  readonly nonFiniteSince?: number | null;
}

/** The x axis of a chart: steps, seconds since the first point of each run, or tokens. */
export type MetricAxis = 'step' | 'time' | 'tokens';

interface ColumnOptions {
  readonly axis?: MetricAxis;
  /** Weight of earlier values in the moving mean, 0 (none) to below 1. */
  readonly smoothing?: number;
  /** The visible range of the axis; null: everything. */
  readonly range?: readonly [number, number] | null;
}

/** True where every run has the times, or the token counts, of its steps. */
export function hasAxis(sources: readonly MetricSource[], name: string, axis: MetricAxis): boolean {
  return sources.every(source => {
    const points = source.series(name);
    return (
      points === null ||
      axis === 'step' ||
      (axis === 'tokens'
        ? points.tokensPerStep !== undefined
        : points.times !== undefined && Number.isFinite(points.times[0]))
    );
  });
}

/** The axis, then a column for each run; null where a run has no point. Points of a run come in the order of their steps. */
export function metricColumns(
  sources: readonly MetricSource[],
  name: string,
  { axis = 'step', smoothing = 0, range = null }: ColumnOptions = {}
): (number | null)[][] {
  const all = sources.map(source => {
    const points = source.series(name);
    return (
      points && inRange(axisOf(points, axis), smoothed(Array.from(points.values, plotted), smoothing), range)
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

function inRange(
  at: number[],
  values: (number | null)[],
  range: ColumnOptions['range']
): { at: number[]; values: (number | null)[] } {
  if (!range) {
    return { at, values };
  }
  const isIn = (_: unknown, point: number): boolean =>
    (at[point] ?? 0) >= range[0] && (at[point] ?? 0) <= range[1];
  return { at: at.filter(isIn), values: values.filter(isIn) };
}

function axisOf({ steps, times, tokensPerStep }: MetricPoints, axis: MetricAxis): number[] {
  const first = times?.[0] ?? 0;
  if (axis === 'tokens' && tokensPerStep !== undefined) {
    return Array.from(steps, step => (step + 1) * tokensPerStep);
  }
  return axis === 'time' && times ? Array.from(times, time => (time - first) / 1_000) : Array.from(steps);
}

/** The exponential moving mean of TensorBoard, without its bias towards 0 at the start. */
function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
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

/** Loss first, because it is the most important; then in the run's order. */
export function metricNames(names: Iterable<string>): string[] {
  return [...new Set(names)].sort((a, b) => rank(a) - rank(b));
}

function rank(name: string): number {
  return name === 'loss' ? 0 : /loss/i.test(name) ? 1 : 2;
}

/** The shown run, then the runs it is compared with. */
export function sourcesOf(
  run: Run,
  runs: readonly Run[],
  stored: readonly StoredRun[],
  compared: readonly string[]
): MetricSource[] {
  return [
    sourceOf(run),
    ...runs.filter(other => other !== run && compared.includes(other.id)).map(sourceOf),
    ...stored.flatMap(one => (compared.includes(one.key) ? (storedSource(one) ?? []) : []))
  ];
}

function sourceOf(run: Run): MetricSource {
  return {
    key: run.id,
    label: run.name,
    series: name => run.series.get(name) ?? null
  };
}

/** Null until it was opened. */
export function storedSource({ key, summary, body }: StoredRun, label = summary.name): MetricSource | null {
  if (!body) {
    return null;
  }
  const { tokensPerStep } = body;
  const series = (name: string): MetricPoints | null => {
    const points = ownValue(body.series, name);
    if (!points) {
      return null;
    }
    const whole = wholeSeries(points);
    return {
      steps: whole.map(([step]) => step),
      values: whole.map(([, value]) => value),
      times: whole.map(([step]) => momentOf(body, step) ?? Number.NaN),
      ...(tokensPerStep === undefined ? {} : { tokensPerStep })
    };
  };
  return { key, label, series };
}
