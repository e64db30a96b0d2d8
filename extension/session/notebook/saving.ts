/**
 * Saves a notebook by itself, and says truthfully whether it is saved. A file that somebody else has changed is never written over:
 * then a person decides.
 */
import type { Context } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import type { BridgeDrive } from '../files/drive.js';
import { notebookText } from '../files/notebook-text.js';

/** After the last change; and at most so long after the first, while changes go on. */
const QUIET_MS = 1_500;
const LONGEST_MS = 10_000;
/** A save that failed is tried again. */
const RETRY_MS = 15_000;

export type SaveState =
  | { readonly kind: 'loading' }
  | { readonly kind: 'read-only' }
  /** `at`: Unix milliseconds of the save by this page; null: as it was loaded. */
  | { readonly kind: 'saved'; readonly at: number | null }
  | { readonly kind: 'dirty' }
  | { readonly kind: 'saving' }
  | { readonly kind: 'failed'; readonly why: string }
  | { readonly kind: 'conflict' };

/** Where the notebook is: below the root folder of the gateway, or in a file of the browser's. */
export type NotebookStore = Pick<BridgeDrive, 'get' | 'save' | 'create'>;

export class Saving implements IDisposable {
  constructor(
    private readonly context: Context<INotebookModel>,
    private readonly drive: NotebookStore,
    private readonly isReadOnly: boolean
  ) {
    context.saveState.connect(this.onSave, this);
    context.model.stateChanged.connect(this.onModel, this);
    context.model.contentChanged.connect(this.onModel, this);
    context.fileChanged.connect(this.onFile, this);
    void context.ready.then(() => this.say(isReadOnly ? { kind: 'read-only' } : { kind: 'saved', at: null }));
  }

  /** What else belongs into the file. */
  prepare: () => Promise<void> = () => Promise.resolve();

  get state(): SaveState {
    return this._state;
  }
  get changed(): ISignal<this, void> {
    return this._changed;
  }
  get isDisposed(): boolean {
    return this._isDisposed;
  }
  get needsSave(): boolean {
    return !this.isReadOnly && this.context.isReady && this.context.model.dirty;
  }

  /** Now, if there is anything to save. Never rejects. */
  async save(): Promise<void> {
    clearTimeout(this._timer);
    this._timer = undefined;
    if (!this.needsSave || this._isSaving || this._isDisposed) {
      return;
    }
    this._isSaving = true;
    this._dirtySince = null;
    try {
      if (await this.isChangedElsewhere()) {
        this.say({ kind: 'conflict' });
        return;
      }
      this.say({ kind: 'saving' });
      const { context, drive } = this;
      await this.prepare();
      const content = context.model.toJSON();
      // What changes from here on is not in it, and has to be saved again.
      context.model.dirty = false;
      try {
        const model = await drive.save(context.path, { type: 'notebook', format: 'json', content });
        this.adopt(model);
        this._savedAt = Date.now();
        this.say({ kind: 'saved', at: this._savedAt });
      } catch (error) {
        context.model.dirty = true;
        throw error;
      }
    } catch (error) {
      const code = (error as { code?: string }).code;
      this.say(
        code === 'file_changed' || code === 'file_exists'
          ? { kind: 'conflict' }
          : { kind: 'failed', why: error instanceof Error ? error.message : String(error) }
      );
      this.schedule(RETRY_MS);
    } finally {
      this._isSaving = false;
      // What has changed meanwhile; a failure has its own time.
      if (this._state.kind === 'saved') {
        this.onModel();
      }
    }
  }

  /** Takes what is on the disk; what this page has goes into a file beside it. Resolves with the name of that file. */
  async keepBoth(): Promise<string> {
    const { context, drive } = this;
    const text = notebookText(context.model.toJSON());
    const copy = await drive.create(context.path.replace(/(\.ipynb)?$/, '-mine.ipynb'), text);
    await this.loadTheirs();
    return copy.path;
  }

  async loadTheirs(): Promise<void> {
    await this.context.revert();
    this.say({ kind: 'saved', at: null });
  }

  /** Over what somebody else has written. */
  async overwrite(): Promise<void> {
    const { context, drive } = this;
    this.adopt(await drive.get(context.path, { content: false }));
    context.model.dirty = true;
    await this.save();
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      clearTimeout(this._timer);
      Signal.clearData(this);
    }
  }

  /** Also with another page of this notebook: a file has one version, whoever has written it. */
  private async isChangedElsewhere(): Promise<boolean> {
    const known = this.context.contentsModel?.hash;
    const now = await this.drive.get(this.context.path, { content: false });
    return known !== undefined && now.hash !== known;
  }

  /** The document compares with this when it is saved by hand, and tells others that the file has changed. */
  private adopt(model: Contents.IModel): void {
    (this.context as unknown as { _updateContentsModel(model: unknown): void })._updateContentsModel(model);
  }

  private onSave(_: unknown, state: string): void {
    if (state === 'completed' || state === 'completed manually') {
      this.say({ kind: 'saved', at: Date.now() });
    }
  }

  private onFile(): void {
    this._changed.emit();
  }

  private onModel(): void {
    if (this._isSaving || this._state.kind === 'conflict') {
      return;
    }
    if (!this.needsSave) {
      // What has changed was nothing to save, which is said a moment after it has.
      if (this._state.kind === 'dirty') {
        clearTimeout(this._timer);
        this._dirtySince = null;
        this.say({ kind: 'saved', at: this._savedAt });
      }
      return;
    }
    if (this._state.kind !== 'failed') {
      this.say({ kind: 'dirty' });
    }
    const now = performance.now();
    this._dirtySince ??= now;
    this.schedule(Math.max(0, Math.min(QUIET_MS, this._dirtySince + LONGEST_MS - now)));
  }

  private schedule(waitMs: number): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => void this.save(), waitMs);
  }

  private say(state: SaveState): void {
    if (!this._isDisposed && JSON.stringify(state) !== JSON.stringify(this._state)) {
      this._state = state;
      this._changed.emit();
    }
  }

  private _state: SaveState = { kind: 'loading' };
  private _savedAt: number | null = null;
  private _dirtySince: number | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isSaving = false;
  private _isDisposed = false;
  private readonly _changed = new Signal<this, void>(this);
}
