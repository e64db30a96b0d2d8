/** The path of a curve without axes. */

/** Points drawn; more cannot be distinguished in a few hundred pixels. */
const POINTS = 120;

interface SparkPath {
  readonly line: string;
  /** Closed along the bottom. */
  readonly area: string;
}

/** The path from the first point to the last; a non-finite value is a gap in the line. Empty without two finite points. */
export function sparkPath(values: ArrayLike<number>, width: number, height: number): SparkPath {
  const every = Math.max(1, Math.ceil(values.length / POINTS));
  const points: { x: number; y: number }[] = [];
  let [low, high] = [Infinity, -Infinity];
  for (let at = (values.length - 1) % every; at < values.length; at += every) {
    const value = values[at] ?? Number.NaN;
    points.push({ x: at, y: value });
    if (Number.isFinite(value)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (points.filter(({ y }) => Number.isFinite(y)).length < 2) return { line: '', area: '' };
  const across = width / Math.max(1, values.length - 1);
  // A curve that never changes lies in the middle; no line is cut at the edges.
  const up = (y: number): number =>
    high > low ? 2 + ((high - y) / (high - low)) * (height - 4) : height / 2;
  let line = '';
  let area = '';
  let start: number | null = null;
  let last = 0;
  const close = (): void => {
    area += start === null ? '' : `L${last} ${height}L${start} ${height}Z`;
    start = null;
  };
  for (const point of points) {
    if (!Number.isFinite(point.y)) {
      close();
      continue;
    }
    const x = round(point.x * across);
    const to = `${start === null ? 'M' : 'L'}${x} ${round(up(point.y))}`;
    start ??= x;
    last = x;
    line += to;
    area += to;
  }
  close();
  return { line, area };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
