/** Draws all charts of the page in one animation frame, no faster than requested, and not at all without changes. */
import type { IDisposable } from '@lumino/disposable';

export interface Drawing {
  /** False while it is not visible. */
  readonly isVisible: boolean;
  draw(): void;
}

/** The part of the window that the loop needs. */
export interface FrameSource {
  requestAnimationFrame(callback: () => void): number;
  cancelAnimationFrame(handle: number): void;
  setTimeout(callback: () => void, ms: number): number;
  clearTimeout(handle: number | undefined): void;
  readonly performance: { now(): number };
}

const DEFAULT_DRAWS_PER_SECOND = 10;

/** An idle loop holds neither a frame nor a timer. A drawing that is hidden stays due until it is shown again. */
export class DrawLoop implements IDisposable {
  constructor(private readonly _source: FrameSource) {}

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Number of frames in which something was drawn: for tests and benchmarks. */
  get framesDrawn(): number {
    return this._framesDrawn;
  }

  set drawsPerSecond(rate: number) {
    this._intervalMs = 1_000 / Math.min(Math.max(rate, 0.5), 60);
  }

  /** Draws this soon. May be called any number of times. */
  request(drawing: Drawing): void {
    this._scheduled.add(drawing);
    this._schedule();
  }

  /** Something has become visible. */
  wake(): void {
    this._schedule();
  }

  forget(drawing: Drawing): void {
    this._scheduled.delete(drawing);
  }

  dispose(): void {
    this._isDisposed = true;
    this._scheduled.clear();
    this._source.clearTimeout(this._timer);
    if (this._frame !== null) this._source.cancelAnimationFrame(this._frame);
  }

  private _schedule(): void {
    if (this._isDisposed || this._frame !== null || this._timer !== undefined || !this._hasVisible()) return;
    const waitMs = this._lastDrawn + this._intervalMs - this._source.performance.now();
    if (waitMs > 1) {
      this._timer = this._source.setTimeout(() => {
        this._timer = undefined;
        this._requestFrame();
      }, waitMs);
    } else {
      this._requestFrame();
    }
  }

  private _requestFrame(): void {
    this._frame = this._source.requestAnimationFrame(() => {
      this._frame = null;
      this._draw();
      this._schedule();
    });
  }

  private _draw(): void {
    let drawn = false;
    for (const drawing of [...this._scheduled]) {
      if (drawing.isVisible) {
        this._scheduled.delete(drawing);
        drawing.draw();
        drawn = true;
      }
    }
    if (drawn) {
      this._lastDrawn = this._source.performance.now();
      this._framesDrawn += 1;
    }
  }

  private _hasVisible(): boolean {
    for (const drawing of this._scheduled) if (drawing.isVisible) return true;
    return false;
  }

  private readonly _scheduled = new Set<Drawing>();
  private _intervalMs = 1_000 / DEFAULT_DRAWS_PER_SECOND;
  private _lastDrawn = Number.NEGATIVE_INFINITY;
  private _timer: number | undefined;
  private _frame: number | null = null;
  private _framesDrawn = 0;
  private _isDisposed = false;
}
