/** The newest steps of a run in typed arrays, so that drawing them allocates nothing. */
import type { StepSample } from '@tpulab/protocol';

/** The five spans of a step in the order in which they are drawn and named everywhere. */
export const SPANS = ['input', 'host', 'compile', 'device', 'gap'] as const;
export type Span = (typeof SPANS)[number];

/** Overwrites the oldest step when it is full. Positions count from the oldest stored step: 0 to length - 1. */
export class StepRing {
  constructor(capacity: number) {
    this.capacity = capacity;
    this._index = new Float64Array(capacity);
    this._start = new Float64Array(capacity);
    this._wall = new Float32Array(capacity);
    this._spans = new Float32Array(capacity * SPANS.length);
    this._known = new Uint8Array(capacity);
  }

  readonly capacity: number;

  get length(): number {
    return Math.min(this._count, this.capacity);
  }

  /** Steps ever added, including overwritten ones. */
  get added(): number {
    return this._count;
  }

  push(step: StepSample): void {
    const slot = this._count % this.capacity;
    this._index[slot] = step.index;
    this._start[slot] = step.startTime;
    this._wall[slot] = step.wallMs;
    const at = slot * SPANS.length;
    this._spans[at] = step.inputMs;
    this._spans[at + 1] = step.hostMs;
    this._spans[at + 2] = step.compileMs;
    this._spans[at + 3] = step.deviceMs;
    this._spans[at + 4] = step.gapMs;
    this._known[slot] = step.deviceKnown ? 1 : 0;
    this._count += 1;
  }

  /** Number of the step in its run, as the agent counts it. */
  index(position: number): number {
    return this._index[this._slot(position)] ?? 0;
  }

  startTime(position: number): number {
    return this._start[this._slot(position)] ?? 0;
  }

  wallMs(position: number): number {
    return this._wall[this._slot(position)] ?? 0;
  }

  /** @param span position in `SPANS` */
  spanMs(position: number, span: number): number {
    return this._spans[this._slot(position) * SPANS.length + span] ?? 0;
  }

  deviceKnown(position: number): boolean {
    return this._known[this._slot(position)] === 1;
  }

  private _slot(position: number): number {
    return this._count > this.capacity ? (this._count + position) % this.capacity : position;
  }

  private readonly _index: Float64Array;
  private readonly _start: Float64Array;
  private readonly _wall: Float32Array;
  private readonly _spans: Float32Array;
  private readonly _known: Uint8Array;
  private _count = 0;
}
