/** What the drives of the page have in common: a signal, an end, and no checkpoints. */
import type { Contents } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { NotebookTexts } from './notebook-text.js';

/** A document wants one to go back to, or it makes one at each opening. */
const CHECKPOINT: Contents.ICheckpointModel = { id: 'none', last_modified: new Date(0).toISOString() };

export abstract class PlainDrive {
  readonly notebooks = new NotebookTexts();

  get fileChanged(): ISignal<this, Contents.IChangedArgs> {
    return this._fileChanged;
  }
  get isDisposed(): boolean {
    return this._isDisposed;
  }

  async createCheckpoint(): Promise<Contents.ICheckpointModel> {
    return CHECKPOINT;
  }
  async listCheckpoints(): Promise<Contents.ICheckpointModel[]> {
    return [CHECKPOINT];
  }
  async restoreCheckpoint(): Promise<void> {
    // Nothing to go back to.
  }
  async deleteCheckpoint(): Promise<void> {
    // Nothing to delete.
  }

  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  protected readonly _fileChanged = new Signal<this, Contents.IChangedArgs>(this);
  private _isDisposed = false;
}
