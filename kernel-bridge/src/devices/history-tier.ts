/** One tier of history: min, mean and max of every series, for each so many seconds. Bounded in points and in values. */
export interface HistoryPoint {
  /** Unix milliseconds at which it begins. */
  readonly time: number;
  /** Samples that it was made of. */
  readonly count: number;
  readonly names: readonly string[];
  /** min, mean, max of each name in turn. */
  readonly values: readonly number[];
}

export interface Tier {
  readonly stepS: 1 | 10 | 60;
  readonly points: number;
}

/** Ten minutes, two hours, two days. */
export const TIERS: readonly Tier[] = [
  { stepS: 1, points: 600 },
  { stepS: 10, points: 720 },
  { stepS: 60, points: 2_880 }
];

/** 16 MiB of numbers: far more than one host's chips need. */
const MAX_VALUES = 2_000_000;

interface Sum {
  min: number;
  max: number;
  sum: number;
  count: number;
}

export class HistoryTier {
  readonly stepMs: number;
  readonly #limit: number;
  #points: HistoryPoint[] = [];
  #values = 0;
  #open: { time: number; count: number; sums: Map<string, Sum> } | null = null;

  constructor({ stepS, points }: Tier) {
    this.stepMs = stepS * 1000;
    this.#limit = points;
  }

  /** A closed point, when this sample begins the next one. */
  add(timeMs: number, figures: ReadonlyMap<string, number>): HistoryPoint | null {
    const time = Math.floor(timeMs / this.stepMs) * this.stepMs;
    // A clock that was set back closes the point too.
    const closed = this.#open && this.#open.time !== time ? this.close() : null;
    this.#open ??= { time, count: 0, sums: new Map() };
    this.#open.count++;
    for (const [name, value] of figures) {
      const sum = this.#open.sums.get(name);
      if (!sum) this.#open.sums.set(name, { min: value, max: value, sum: value, count: 1 });
      else {
        sum.min = Math.min(sum.min, value);
        sum.max = Math.max(sum.max, value);
        sum.sum += value;
        sum.count++;
      }
    }
    return closed;
  }

  /** Ends the point that is being made. */
  close(): HistoryPoint | null {
    const point = this.#opened();
    this.#open = null;
    if (point) this.restore(point);
    return point;
  }

  /** A point as it was closed before, by this process or an earlier one. */
  restore(point: HistoryPoint): void {
    const last = this.#points.at(-1);
    // A gateway that was replaced within the step: two halves of one point.
    if (last?.time === point.time) {
      this.#points.pop();
      this.#values -= last.values.length;
    }
    const whole = last?.time === point.time ? joined(last, point) : point;
    this.#points.push(whole);
    this.#values += whole.values.length;
    while (this.#points.length > this.#limit || this.#values > MAX_VALUES) {
      this.#values -= this.#points.shift()?.values.length ?? 0;
    }
  }

  /** Oldest first, the unfinished point last. */
  points(fromMs = 0): HistoryPoint[] {
    const open = this.#opened();
    return [...this.#points, ...(open ? [open] : [])]
      .filter(({ time }) => time >= fromMs)
      .sort((a, b) => a.time - b.time)
      .reduce<HistoryPoint[]>((list, point) => {
        const last = list.at(-1);
        if (last?.time === point.time) list[list.length - 1] = joined(last, point);
        else list.push(point);
        return list;
      }, []);
  }

  #opened(): HistoryPoint | null {
    if (!this.#open) return null;
    const { time, count, sums } = this.#open;
    const entries = [...sums];
    return {
      time,
      count,
      names: entries.map(([name]) => name),
      values: entries.flatMap(([, { min, max, sum, count: of }]) => [min, sum / of, max])
    };
  }
}

function joined(a: HistoryPoint, b: HistoryPoint): HistoryPoint {
  const count = a.count + b.count;
  const names = [...new Set([...a.names, ...b.names])];
  const values = names.flatMap(name => {
    const [one, other] = [figuresOf(a, name), figuresOf(b, name)];
    if (!one || !other) return one ?? other ?? [];
    const mean = (one[1] * a.count + other[1] * b.count) / count;
    return [Math.min(one[0], other[0]), mean, Math.max(one[2], other[2])];
  });
  return { time: a.time, count, names, values };
}

function figuresOf({ names, values }: HistoryPoint, name: string): [number, number, number] | null {
  const at = names.indexOf(name) * 3;
  const [min, mean, max] = values.slice(at, at + 3);
  return at < 0 || min === undefined || mean === undefined || max === undefined ? null : [min, mean, max];
}
