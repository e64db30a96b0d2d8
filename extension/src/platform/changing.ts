/** A base for observable objects: it emits a signal after a change, until it is disposed. */
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

export abstract class Changing implements IDisposable {
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Also disconnects this object from others' signals. */
  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  protected readonly _changed = new Signal<this, void>(this);
  private _isDisposed = false;
}
