/** A base for observable objects: it emits a signal after a change, until it is disposed. */
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

export abstract class Changing implements IDisposable {
  readonly changed = new Signal<this, void>(this);

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Also disconnects this object from others' signals. */
  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  private _isDisposed = false;
}
