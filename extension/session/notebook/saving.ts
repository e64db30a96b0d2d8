/**
 * Keeps a notebook and its file the same: saves by itself, takes what other programs write while nothing is unsaved here, and says
 * truthfully how the two stand. What somebody else has changed is never written over, and a file is never made where one was deleted:
 * then a person decides.
 */
import type { CodeCell } from '@jupyterlab/cells';
import type { Context, DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { Contents } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import type { BridgeDrive } from '../files/drive.js';
import { messageOf } from '../text.js';
import { takeCells } from './take-cells.js';

/** After the last change; and at most so long after the first, while changes go on. */
const QUIET_MS = 1_500;
const LONGEST_MS = 10_000;
/** A save that failed is tried again. */
const RETRY_MS = 15_000;
/** How soon a change of the file is seen. */
const WATCH_MS = 3_000;

export type SaveState =
  | { readonly kind: 'loading' }
  | { readonly kind: 'read-only' }
  /** `at`: Unix milliseconds of the save by this page; null: as it was loaded. */
  | { readonly kind: 'saved'; readonly at: number | null }
  | { readonly kind: 'dirty' }
  | { readonly kind: 'saving' }
  | { readonly kind: 'failed'; readonly why: string }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'unreadable' }
  /** `at`: when this page saw it. */
  | { readonly kind: 'deleted'; readonly at: number }
  /** The file stays in this format until a person has it converted. */
  | { readonly kind: 'old-format'; readonly version: number };

/** Where the notebook is: below the root folder of the gateway, or in a file of the browser's. */
export type NotebookStore = Pick<BridgeDrive, 'get' | 'save' | 'create' | 'notebooks'> &
  Partial<Pick<BridgeDrive, 'replace' | 'forget'>>;

export class Saving implements IDisposable {
  constructor(
    private readonly panel: NotebookPanel,
    private readonly drive: NotebookStore,
    private readonly isReadOnly: boolean
  ) {
    const context = panel.context as Context<INotebookModel>;
    this.context = context;
    context.saveState.connect(this.onSave, this);
    context.model.stateChanged.connect(this.onModel, this);
    context.model.contentChanged.connect(this.onModel, this);
    context.fileChanged.connect(this.onFile, this);
    const watch = (): void => void this.watch();
    const timer = setInterval(watch, WATCH_MS);
    document.addEventListener('visibilitychange', watch);
    panel.disposed.connect(() => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', watch);
    });
    void context.ready.then(() => this.say(this.isReadOnly ? { kind: 'read-only' } : this.loaded()));
  }

  /** What else belongs into the file. */
  prepare: () => Promise<void> = () => Promise.resolve();

  get state(): SaveState {
    return this._state;
  }
  get changed(): ISignal<this, void> {
    return this._changed;
  }
  /** Emitted when cells were taken from the file. */
  get reloaded(): ISignal<this, void> {
    return this._reloaded;
  }
  get isDisposed(): boolean {
    return this._isDisposed;
  }
  /** Whether leaving the page would lose something, also while a save is on its way. */
  get needsSave(): boolean {
    return this._isSaving || this.isDirty;
  }
  /** Whether there is a way back to the file as it was: a file of this computer has none. */
  get canConvert(): boolean {
    return this.drive.replace !== undefined;
  }

  /** Resolves when what the page shows now is saved, or cannot be. Never rejects. */
  save(): Promise<void> {
    this._last = this._last.then(() => this.saveNow());
    return this._last;
  }

  /** The file cannot be shown as a notebook. */
  fail(): void {
    this.say({ kind: 'unreadable' });
  }

  /** The notebook as a save would write it. */
  text(): string {
    return this.drive.notebooks.text(this.context.path, this.context.model.toJSON());
  }

  /** Takes what is on the disk; what this page has goes into a file beside it. Resolves with the name of that file. */
  async keepBoth(): Promise<string> {
    const path = await this.saveCopy('-mine');
    await this.loadTheirs();
    return path;
  }

  /** Into a new file: `to`, or one beside this one whose name ends so. Resolves with its path. */
  async saveCopy(end: `-${string}`, to?: string): Promise<string> {
    const wanted = to ?? this.context.path.replace(/(\.ipynb)?$/, `${end}.ipynb`);
    return (await this.drive.create(wanted, this.text())).path;
  }

  async loadTheirs(): Promise<void> {
    await this.context.revert();
    this.say(this.loaded());
  }

  /** Over what somebody else has written, or again where the file was deleted. */
  async overwrite(): Promise<void> {
    const { context, drive } = this;
    if (this._state.kind === 'deleted') {
      drive.forget?.(context.path);
    } else {
      this.adopt(await drive.get(context.path, { content: false }));
    }
    await this.write();
  }

  /** The file becomes one of today's format; as it was it goes into the trash. */
  async convert(): Promise<void> {
    const { context, drive } = this;
    if (drive.replace !== undefined) {
      this.adopt(await drive.replace(context.path, this.text()));
      context.model.dirty = false;
      await this.loadTheirs();
    }
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      clearTimeout(this._timer);
      Signal.clearData(this);
    }
  }

  private get isDirty(): boolean {
    return !this.isReadOnly && this.context.isReady && this.context.model.dirty;
  }

  /** A person decides what comes next. */
  private get isHalted(): boolean {
    return ['conflict', 'deleted', 'old-format'].includes(this._state.kind);
  }

  private loaded(): SaveState {
    const version = this.drive.notebooks.oldFormat(this.context.path);
    return version === null ? { kind: 'saved', at: null } : { kind: 'old-format', version };
  }

  private async saveNow(): Promise<void> {
    clearTimeout(this._timer);
    this._timer = undefined;
    if (this.isDirty && !this._isDisposed && !this.isHalted && !(await this.isChangedElsewhere())) {
      await this.write();
    }
  }

  private async write(): Promise<void> {
    this._isSaving = true;
    this._dirtySince = null;
    const begin = performance.now();
    this.say({ kind: 'saving' });
    const { context, drive } = this;
    // Without what else belongs into it the notebook is saved all the same.
    await this.prepare().catch(() => undefined);
    this.emitSave('started');
    const content = context.model.toJSON();
    // What changes from here on is not in it, and has to be saved again.
    context.model.dirty = false;
    try {
      this.adopt(await drive.save(context.path, { type: 'notebook', format: 'json', content }));
      this.emitSave('completed');
    } catch (error) {
      context.model.dirty = true;
      this.emitSave('failed');
      this.sayFailed(error);
    } finally {
      this._isSaving = false;
      this._writeMs = Math.min(performance.now() - begin, LONGEST_MS / 2);
      // What has changed meanwhile; a failure has its own time.
      if (this._state.kind === 'saved') this.onModel();
    }
  }

  private sayFailed(error: unknown): void {
    const { code } = error as { code?: string };
    if (code === 'file_not_found') {
      this.say({ kind: 'deleted', at: Date.now() });
    } else if (code === 'file_changed' || code === 'file_exists') {
      this.say({ kind: 'conflict' });
    } else {
      this.say({ kind: 'failed', why: messageOf(error) });
      this.schedule(RETRY_MS);
    }
  }

  /** Also by another page of this notebook: a file has one version, whoever has written it. Says what it has found. */
  private async isChangedElsewhere(): Promise<boolean> {
    const { context, drive } = this;
    try {
      const known = context.contentsModel?.hash;
      const now = await drive.get(context.path, { content: false });
      if (known === undefined || now.hash === known) return false;
      const theirs = await drive.get(context.path);
      if (drive.notebooks.isSame(context.path, context.model.toJSON())) {
        // Both say the same, so there is nothing to decide.
        this.adopt(theirs);
        return false;
      }
      this.say({ kind: 'conflict' });
    } catch (error) {
      this.sayFailed(error);
    }
    return true;
  }

  /** Takes what another program has written, as long as nothing is unsaved here. */
  private async watch(): Promise<void> {
    const { context, drive } = this;
    const isWaiting = this.needsSave || this._state.kind === 'conflict' || this._state.kind === 'old-format';
    if (document.hidden || this._isWatching || !context.isReady || this._isDisposed || isWaiting) return;
    this._isWatching = true;
    const { path } = context;
    try {
      const now = await drive.get(path, { content: false });
      if (now.hash !== context.contentsModel?.hash) {
        await this.take(await drive.get(context.path));
      } else if (this._state.kind === 'deleted') {
        this.say(this.loaded());
      }
    } catch (error) {
      // Else it is being written, or the gateway is away, which the page says elsewhere.
      const isMissing = (error as { code?: string }).code === 'file_not_found' && path === context.path;
      if (isMissing && !this.isReadOnly) this.sayFailed(error);
    } finally {
      this._isWatching = false;
    }
  }

  private async take(file: Contents.IModel): Promise<void> {
    const { context, panel } = this;
    if (this.needsSave) {
      return; // changed meanwhile: the save finds the conflict
    }
    const running = panel.content.widgets
      .filter(widget => (widget as CodeCell).model.executionState === 'running')
      .map(({ model }) => model.id);
    takeCells(context.model.sharedModel, file.content as INotebookContent, new Set(running));
    context.model.dirty = false;
    this.adopt({ ...file, content: null });
    if (!this.isReadOnly) this.say(this.loaded());
    this._reloaded.emit();
  }

  /** As the document does when it is saved by hand. */
  private emitSave(state: DocumentRegistry.SaveState): void {
    const { _saveState } = this.context as unknown as {
      readonly _saveState: Signal<unknown, DocumentRegistry.SaveState>;
    };
    _saveState.emit(state);
  }

  /** The document compares with this when it is saved by hand, and tells others that the file has changed. */
  private adopt(model: Contents.IModel): void {
    (this.context as unknown as { _updateContentsModel(model: unknown): void })._updateContentsModel(model);
  }

  private onSave(_: unknown, state: DocumentRegistry.SaveState): void {
    if (state === 'completed') {
      this._savedAt = Date.now();
      this.say({ kind: 'saved', at: this._savedAt });
    }
  }

  private onFile(): void {
    this._changed.emit();
  }

  private onModel(): void {
    if (this._isSaving || this.isHalted) return;
    if (!this.isDirty) {
      // What has changed was nothing to save, which is said a moment after it has.
      if (this._state.kind === 'dirty') {
        clearTimeout(this._timer);
        this._dirtySince = null;
        this.say({ kind: 'saved', at: this._savedAt });
      }
      return;
    }
    if (this._state.kind !== 'failed') this.say({ kind: 'dirty' });
    const now = performance.now();
    this._dirtySince ??= now;
    // A notebook that takes seconds to write would hold up typing again and again.
    const cost = this._writeMs > 1_000 ? 3 * this._writeMs : 0;
    this.schedule(Math.max(0, Math.min(QUIET_MS + cost, this._dirtySince + LONGEST_MS + cost - now)));
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

  readonly context: Context<INotebookModel>;
  private _state: SaveState = { kind: 'loading' };
  private _savedAt: number | null = null;
  private _dirtySince: number | null = null;
  private _writeMs = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isSaving = false;
  private _isWatching = false;
  private _isDisposed = false;
  private _last: Promise<void> = Promise.resolve();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _reloaded = new Signal<this, void>(this);
}
