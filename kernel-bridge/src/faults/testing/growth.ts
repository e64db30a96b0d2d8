/** Whether a repeatedly sampled value grows, or only fluctuates. */

export interface Growth {
  /** Growth of the best-fitting line from the first to the last sample. */
  readonly overRun: number;
  readonly perHour: number;
  /** One standard error of `overRun`. */
  readonly error: number;
  readonly mean: number;
}

/** Least squares. `atMs` and `values` have equal lengths; at least three samples are required. */
export function growthOf(atMs: readonly number[], values: readonly number[]): Growth {
  const count = values.length;
  if (count < 3 || atMs.length !== count) throw new Error(`${count} samples say nothing about growth.`);
  const meanAt = sum(atMs) / count;
  const mean = sum(values) / count;
  const spread = sum(atMs.map(at => (at - meanAt) ** 2));
  const slope = sum(atMs.map((at, index) => (at - meanAt) * (values[index]! - mean))) / spread;
  const residual = sum(values.map((value, index) => (value - mean - slope * (atMs[index]! - meanAt)) ** 2));
  const duration = atMs.at(-1)! - atMs[0]!;
  return {
    overRun: slope * duration,
    perHour: slope * 3_600_000,
    error: Math.sqrt(residual / (count - 2) / spread) * duration,
    mean
  };
}

/** Whether the growth exceeds both what is allowed and what the fluctuations explain. */
export function isGrowing({ overRun, error }: Growth, allowed: number): boolean {
  return overRun > allowed && overRun > 3 * error;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
