/** The metrics of one run or of several, as the columns of a chart. */

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
  /** The newest value, also when it is not among the points. */
  readonly last?: number;
  /** The step from which on every value has been NaN or infinite. */
  readonly nonFiniteSince?: number | null;
}

/** Step numbers, then a column for each run; null where a run has no point. Points of a run come in the order of their steps. */
export function metricColumns(sources: readonly MetricSource[], name: string): (number | null)[][] {
  const all = sources.map(source => source.series(name));
  const [only] = all;
  if (all.length === 1 && only) {
    return [Array.from(only.steps), Array.from(only.values, plotted)];
  }
  const steps = new Set<number>();
  for (const points of all) {
    for (let at = 0; at < (points?.steps.length ?? 0); at += 1) {
      steps.add(points?.steps[at] ?? 0);
    }
  }
  const sorted = [...steps].sort((a, b) => a - b);
  const rowOf = new Map(sorted.map((step, row) => [step, row]));
  const columns = all.map(points => {
    const column = new Array<number | null>(sorted.length).fill(null);
    for (let at = 0; at < (points?.steps.length ?? 0); at += 1) {
      const row = rowOf.get(points?.steps[at] ?? -1);
      if (row !== undefined) {
        column[row] = plotted(points?.values[at] ?? Number.NaN);
      }
    }
    return column;
  });
  return [sorted, ...columns];
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
