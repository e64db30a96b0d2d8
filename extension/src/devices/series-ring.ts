/** Figures over time in typed arrays: one column of times, one of values for each series. Unknown is NaN. */

/** Overwrites the oldest row when it is full. Rows count from the oldest stored row: 0 to length - 1. */
export class SeriesRing {
  constructor(readonly capacity: number) {
    this._times = new Float64Array(capacity);
  }

  get length(): number {
    return Math.min(this._count, this.capacity);
  }

  get names(): readonly string[] {
    return [...this._columns.keys()];
  }

  /** Time of the newest row, Unix milliseconds; 0 when there is none. */
  get lastTime(): number {
    return this._count === 0 ? 0 : (this._times[(this._count - 1) % this.capacity] ?? 0);
  }

  /** Adds a row. Series that `figures` does not name are unknown in it; a new series was unknown before. */
  push(time: number, figures: Iterable<readonly [string, number]>): void {
    const slot = this._count % this.capacity;
    this._times[slot] = time;
    for (const column of this._columns.values()) column[slot] = Number.NaN;
    for (const [name, value] of figures) this._column(name)[slot] = value;
    this._count += 1;
  }

  time(row: number): number {
    return this._times[this._slot(row)] ?? 0;
  }

  /** NaN where unknown. */
  value(name: string, row: number): number {
    return this._columns.get(name)?.[this._slot(row)] ?? Number.NaN;
  }

  clear(): void {
    this._count = 0;
    this._columns.clear();
  }

  private _column(name: string): Float64Array {
    let column = this._columns.get(name);
    if (!column) {
      column = new Float64Array(this.capacity).fill(Number.NaN);
      this._columns.set(name, column);
    }
    return column;
  }

  private _slot(row: number): number {
    return this._count > this.capacity ? (this._count + row) % this.capacity : row;
  }

  private readonly _times: Float64Array;
  private readonly _columns = new Map<string, Float64Array>();
  private _count = 0;
}
