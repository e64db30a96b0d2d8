/** Common base of the page's drives: a signal, disposal, and no checkpoints. */
import type { Contents } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { NotebookTexts } from './notebook-text.js';

/** A document needs a checkpoint to go back to; without one it creates one at each opening. */
const CHECKPOINT: Contents.ICheckpointModel = { id: 'none', last_modified: new Date(0).toISOString() };

export abstract class PlainDrive {
  readonly notebooks = new NotebookTexts();

  readonly fileChanged = new Signal<this, Contents.IChangedArgs>(this);

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
    // No checkpoint to restore.
  }
  async deleteCheckpoint(): Promise<void> {
    // No checkpoint to delete.
  }

  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  private _isDisposed = false;
}
