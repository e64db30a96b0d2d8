/** The page's own server as a backend: its state is the result of the last list. Lab itself polls and warns. */
import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import type { BackendState, IBackend, IBackendError } from '../tokens.js';

export class JupyterBackend implements IBackend {
  readonly id = 'jupyter';
  readonly label = 'Jupyter server';
  readonly nextRetryAt = null;

  constructor(readonly serverSettings: ServerConnection.ISettings) {}

  get state(): BackendState {
    return this._state;
  }
  get lastError(): IBackendError | null {
    return this._lastError;
  }
  readonly changed = new Signal<this, void>(this);

  /** Emitted when an immediate attempt is requested. */
  readonly reconnectRequested = new Signal<this, void>(this);

  succeeded(): void {
    this.update('ok', null);
  }

  failed(error: IBackendError): void {
    this.update('down', error);
  }

  reconnectNow(): void {
    this.reconnectRequested.emit();
  }

  private update(state: BackendState, error: IBackendError | null): void {
    if (state === this._state && error?.message === this._lastError?.message) return;
    this._state = state;
    this._lastError = error;
    this.changed.emit();
  }

  private _state: BackendState = 'starting';
  private _lastError: IBackendError | null = null;
}
