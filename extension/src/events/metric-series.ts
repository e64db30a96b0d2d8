/** One metric over the steps of a run, whole, in bounded room: when it is full, every second point is let go. */

/** Points held; more cannot be told apart in any chart. */
export const POINTS_KEPT = 4_096;

export class MetricSeries {
  constructor(private readonly _capacity = POINTS_KEPT) {
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

  /** The newest value, also when it is not among the points; NaN before the first. */
  get last(): number {
    return this._last;
  }

  /** The step from which on every value has been NaN or infinite; null while the newest is finite. */
  get nonFiniteSince(): number | null {
    return this._nonFiniteSince;
  }

  /** Views of what is held: not to be kept beyond the next `push`. */
  get steps(): Float64Array {
    return this._steps.subarray(0, this._length);
  }

  get values(): Float64Array {
    return this._values.subarray(0, this._length);
  }

  /** When each step began, Unix milliseconds; NaN where nobody told. */
  get times(): Float64Array {
    return this._times.subarray(0, this._length);
  }

  push(step: number, value: number, time = Number.NaN): void {
    this._last = value;
    this._nonFiniteSince = Number.isFinite(value) ? null : (this._nonFiniteSince ?? step);
    const isDue = this._added % this._stride === 0;
    this._added += 1;
    if (!isDue) {
      return;
    }
    if (this._length === this._steps.length) {
      this._makeRoom();
      // The point was due at the stride before; at the new one it may not be.
      if ((this._added - 1) % this._stride !== 0) {
        return;
      }
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
    const kept = Math.ceil(this._length / 2);
    for (let at = 0; at < kept; at += 1) {
      this._steps[at] = this._steps[at * 2] ?? 0;
      this._values[at] = this._values[at * 2] ?? 0;
      this._times[at] = this._times[at * 2] ?? 0;
    }
    this._length = kept;
    this._stride *= 2;
  }

  private _steps: Float64Array;
  private _values: Float64Array;
  private _times: Float64Array;
  private _length = 0;
  private _added = 0;
  private _stride = 1;
  private _last = Number.NaN;
  private _nonFiniteSince: number | null = null;
}

const INITIAL = 64;

function grown(array: Float64Array, size: number): Float64Array {
  const larger = new Float64Array(size);
  larger.set(array);
  return larger;
}
