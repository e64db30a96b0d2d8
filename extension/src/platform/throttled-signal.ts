/** A signal for "something changed", at most once in an interval. */
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

/**
 * The first change is emitted immediately, later changes within the interval together at its end. Nothing is
 * lost: after the last change there is always one more emission. An idle signal has no timer.
 */
export class ThrottledSignal<T extends object> implements IDisposable {
  constructor(sender: T, intervalMs: number) {
    this._signal = new Signal<T, void>(sender);
    this._intervalMs = intervalMs;
  }

  get signal(): ISignal<T, void> {
    return this._signal;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  fire(): void {
    if (this._isDisposed) return;
    if (this._timer !== null) {
      this._pending = true;
      return;
    }
    this._timer = setTimeout(this._onInterval, this._intervalMs);
    this._signal.emit();
  }

  dispose(): void {
    if (this._isDisposed) return;
    this._isDisposed = true;
    if (this._timer !== null) {
      clearTimeout(this._timer);
      this._timer = null;
    }
    Signal.clearData(this);
  }

  private readonly _onInterval = (): void => {
    this._timer = null;
    if (this._pending) {
      this._pending = false;
      this.fire();
    }
  };

  private readonly _signal: Signal<T, void>;
  private readonly _intervalMs: number;
  private _timer: ReturnType<typeof setTimeout> | null = null;
  private _pending = false;
  private _isDisposed = false;
}
