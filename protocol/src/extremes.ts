/** Thins a long curve to bounded space while keeping its spikes: the lowest and the highest of each group of points stay. */

/** Number of points that are reduced to two when a curve is thinned. */
const GROUP = 4;

/**
 * Positions of the points that remain when a full curve is thinned to half: the extremes of each group, and the first
 * point.
 */
export function thinned(values: ArrayLike<number>): number[] {
  const places: number[] = [];
  for (let from = 0; from < values.length; from += GROUP)
    places.push(...extremes(values, from, Math.min(from + GROUP, values.length)));
  return places[0] === 0 ? places : [0, ...places.slice(1)];
}

/** Positions of the lowest and the highest of `values[from]` to `values[to - 1]`, in order. NaN counts as the highest. */
export function extremes(values: ArrayLike<number>, from: number, to: number): number[] {
  let low = from;
  let high = from;
  for (let at = from; at < to; at += 1) {
    if (rank(values[at]) < rank(values[low])) low = at;
    if (rank(values[at]) >= rank(values[high])) high = at;
  }
  return low === high ? [low] : [Math.min(low, high), Math.max(low, high)];
}

function rank(value: number | undefined): number {
  return value === undefined || Number.isNaN(value) ? Infinity : value;
}
