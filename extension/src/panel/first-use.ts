/**
 * Opens the panel automatically once: the first time that a notebook of this browser runs on the bridge.
 *
 * A new user of TPULab does not know that there is a panel. Afterwards the user opens and closes it,
 * and JupyterLab stores its state.
 */
import type { IDisposable } from '@lumino/disposable';
import type { ICurrentKernel } from '../tokens.js';

/** Key under which the browser stores that the panel has been shown. */
export const SHOWN_KEY = 'tpulab:panel-shown';

/** The used part of `Storage`; a browser that forbids storage throws at any of these. */
export interface Memory {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

export interface FirstUseOptions {
  readonly currentKernel: ICurrentKernel;
  /** Null where the browser has no storage: then the panel never opens automatically. */
  readonly memory: Memory | null;
  /** Shows the panel without moving the focus. */
  readonly show: () => void;
}

export class FirstUse implements IDisposable {
  constructor(private readonly _options: FirstUseOptions) {
    if (this._isDue()) {
      _options.currentKernel.changed.connect(this._check, this);
      this._check();
    }
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._options.currentKernel.changed.disconnect(this._check, this);
  }

  private _isDue(): boolean {
    try {
      return this._options.memory !== null && this._options.memory.getItem(SHOWN_KEY) === null;
    } catch {
      return false;
    }
  }

  private _check(): void {
    const { currentKernel, memory, show } = this._options;
    if (currentKernel.current.kind !== 'bridge') {
      return;
    }
    this.dispose();
    try {
      memory?.setItem(SHOWN_KEY, '1');
    } catch {
      // The state could not be stored, so the panel would open at every start: better never.
      return;
    }
    show();
  }

  private _isDisposed = false;
}
