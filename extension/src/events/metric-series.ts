/** One whole metric over the steps of a run, in bounded memory: when it is full, only the extremes of each few points are retained. */
import { extremes, thinned } from '@tpulab/protocol';

/** Maximum number of points; more cannot be distinguished in any chart. */
export const MAX_POINTS = 4_096;

export class MetricSeries {
  constructor(private readonly _capacity = MAX_POINTS) {
    this._steps = new Float64Array(Math.min(INITIAL, _capacity));
    this._values = new Float64Array(Math.min(INITIAL, _capacity));
    this._times = new Float64Array(Math.min(INITIAL, _capacity));
  }

  get length(): number {
    return this._length;
  }

  /** Points ever added. */
  get added(): number {
    return this._added;
  }

  /** The newest value, even if it is not among the points; NaN before the first. */
  get last(): number {
    return this._last;
  }

  /** The step from which on every value has been NaN or infinite; null while the newest is finite. */
  get nonFiniteSince(): number | null {
    return this._nonFiniteSince;
  }

  /** Views of the stored points: invalid after the next `push`. */
  get steps(): Float64Array {
    return this._steps.subarray(0, this._length);
  }

  get values(): Float64Array {
    return this._values.subarray(0, this._length);
  }

  /** Start of each step, Unix milliseconds; NaN where not reported. */
  get times(): Float64Array {
    return this._times.subarray(0, this._length);
  }

  push(step: number, value: number, time = Number.NaN): void {
    this._last = value;
    this._nonFiniteSince = Number.isFinite(value) ? null : (this._nonFiniteSince ?? step);
    this._added += 1;
    this._waiting.push([step, value, time]);
    if (this._waiting.length < this._group) {
      return;
    }
    const values = this._waiting.map(([, waiting]) => waiting);
    for (const at of this._group === 1 ? [0] : extremes(values, 0, values.length)) {
      this._append(this._waiting[at] ?? [step, value, time]);
    }
    this._waiting.length = 0;
  }

  private _append([step, value, time]: Point): void {
    if (this._length === this._steps.length) {
      this._makeRoom();
    }
    this._steps[this._length] = step;
    this._values[this._length] = value;
    this._times[this._length] = time;
    this._length += 1;
  }

  private _makeRoom(): void {
    if (this._steps.length < this._capacity) {
      const size = Math.min(this._capacity, this._steps.length * 2);
      this._steps = grown(this._steps, size);
      this._values = grown(this._values, size);
      this._times = grown(this._times, size);
      return;
    }
    const stored = thinned(this.values);
    stored.forEach((from, at) => {
      this._steps[at] = this._steps[from] ?? 0;
      this._values[at] = this._values[from] ?? 0;
      this._times[at] = this._times[from] ?? 0;
    });
    this._length = stored.length;
    this._group = this._group === 1 ? 4 : this._group * 2;
  }

  private _steps: Float64Array;
  private _values: Float64Array;
  private _times: Float64Array;
  private _length = 0;
  private _added = 0;
  /** Points per group; of each group the lowest and the highest are retained. */
  private _group = 1;
  private readonly _waiting: Point[] = [];
  private _last = Number.NaN;
  private _nonFiniteSince: number | null = null;
}

/** Step, value and time. */
type Point = readonly [number, number, number];

const INITIAL = 64;

function grown(array: Float64Array, size: number): Float64Array {
  const larger = new Float64Array(size);
  larger.set(array);
  return larger;
}
