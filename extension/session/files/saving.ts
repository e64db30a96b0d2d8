/**
 * Keeps a document and its file the same: saves by itself, takes what other programs write while nothing is unsaved here, and says
 * truthfully how the two stand. What somebody else has changed is never written over, and a file is never made where one was deleted:
 * then a person decides.
 */
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import { messageOf } from '../text.js';
import type { BridgeDrive } from './drive.js';

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
  | { readonly kind: 'unreadable'; readonly why?: string }
  /** `at`: when this page saw it. */
  | { readonly kind: 'deleted'; readonly at: number }
  /** The file stays in this format until a person has it converted. */
  | { readonly kind: 'old-format'; readonly version: number };

/** Where the document is: below the root folder of the gateway, or in a file of the browser's. */
export type FileStore = Pick<BridgeDrive, 'get' | 'save' | 'create' | 'text'> &
  Partial<Pick<BridgeDrive, 'discard' | 'forget'>>;

/** What two versions are compared by: a cell, or a whole text. */
export interface Part {
  readonly text: string;
  /** With outputs and all else that is not its text. */
  readonly whole: string;
}

export abstract class Saving implements IDisposable {
  constructor(
    protected readonly store: FileStore,
    protected readonly isReadOnly: boolean
  ) {
    const watch = (): void => void this.watch();
    const timer = setInterval(watch, WATCH_MS);
    document.addEventListener('visibilitychange', watch);
    this.stopWatching = () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', watch);
    };
  }

  /** What else belongs into the file. */
  prepare: () => Promise<void> = () => Promise.resolve();

  abstract readonly path: string;
  /** The document as a save would write it. */
  abstract text(): string;
  abstract parts(text: string): readonly Part[];
  protected abstract readonly isReady: boolean;
  protected abstract isDirty: boolean;
  /** Of the file that the document is based on. */
  protected abstract readonly version: string | undefined;
  /** Saved without being asked. */
  protected readonly isAutomatic: boolean = true;
  protected abstract content(): Partial<Contents.IModel>;
  protected abstract isSame(theirs: Contents.IModel): boolean;
  /** Makes the document what the file has, as far as it has changed. */
  protected abstract show(file: Contents.IModel): void;
  /** From the file, whatever is here. */
  protected abstract revert(): Promise<void>;
  /** This is the version of the file from now on. */
  protected abstract adopt(model: Contents.IModel): void;

  get state(): SaveState {
    return this._state;
  }
  get changed(): ISignal<this, void> {
    return this._changed;
  }
  /** Emitted when the document was taken from the file. */
  get reloaded(): ISignal<this, void> {
    return this._reloaded;
  }
  get isDisposed(): boolean {
    return this._isDisposed;
  }
  /** Whether leaving the page would lose something, also while a save is on its way. */
  get needsSave(): boolean {
    return this._isSaving || this.isUnsaved;
  }
  /** Whether what is not kept goes into the trash: a file of this computer has none. */
  get hasTrash(): boolean {
    return this.store.discard !== undefined;
  }

  /** Resolves when what the page shows now is saved, or cannot be. Never rejects. */
  save(): Promise<void> {
    this._last = this._last.then(() => this.saveNow());
    return this._last;
  }

  /** The file cannot be shown. */
  fail(why?: string): void {
    this.showState({ kind: 'unreadable', ...(why !== undefined && { why }) });
  }

  /** What the file has now. */
  theirs(): Promise<string> {
    return this.store.text(this.path);
  }

  /** Takes what is on the disk; what this page has goes into a file beside it. Resolves with the name of that file. */
  async keepBoth(): Promise<string> {
    const path = await this.saveCopy('-mine');
    await this.load();
    return path;
  }

  /** Into a new file: `to`, or one beside this one whose name ends so. Resolves with its path. */
  async saveCopy(end: `-${string}`, to = this.named(end)): Promise<string> {
    return (await this.store.create(to, this.text())).path;
  }

  /** The name of this file with `end` before its extension. */
  named(end: `-${string}`): string {
    return this.path.replace(/^browser:[^/]*\//, '').replace(/(\.[^./]*)?$/, extension => end + extension);
  }

  async loadTheirs(): Promise<void> {
    await this.store.discard?.(this.named('-mine'), this.text());
    await this.load();
  }

  /** Over what somebody else has written, or again where the file was deleted. */
  async overwrite(): Promise<void> {
    const { path, store } = this;
    if (this._state.kind === 'deleted') {
      store.forget?.(path);
    } else {
      this.adopt(await store.get(path, { content: false }));
      await store.discard?.(this.named('-theirs'), await this.theirs());
    }
    await this.write();
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      clearTimeout(this._timer);
      this.stopWatching();
      Signal.clearData(this);
    }
  }

  protected async load(): Promise<void> {
    await this.revert();
    this.showState(this.loaded());
  }

  protected loaded(): SaveState {
    return this.isReadOnly ? { kind: 'read-only' } : { kind: 'saved', at: null };
  }

  /** Tells the document, and the page, of a save. */
  protected emitState(state: DocumentRegistry.SaveState): void {
    if (state === 'completed') {
      this._savedAt = Date.now();
      this.showState({ kind: 'saved', at: this._savedAt });
    }
  }

  private get isUnsaved(): boolean {
    return !this.isReadOnly && this.isReady && this.isDirty;
  }

  /** A person decides what comes next. */
  private get isHalted(): boolean {
    return ['conflict', 'deleted', 'old-format'].includes(this._state.kind);
  }

  private async saveNow(): Promise<void> {
    clearTimeout(this._timer);
    this._timer = undefined;
    if (this.isUnsaved && !this._isDisposed && !this.isHalted && !(await this.isChangedElsewhere())) {
      await this.write();
    }
  }

  private async write(): Promise<void> {
    this._isSaving = true;
    this._dirtySince = null;
    const begin = performance.now();
    this.showState({ kind: 'saving' });
    // Without what else belongs into it the notebook is saved all the same.
    await this.prepare().catch(() => undefined);
    this.emitState('started');
    const content = this.content();
    // What changes from here on is not in it, and has to be saved again.
    this.isDirty = false;
    try {
      this.adopt(await this.store.save(this.path, content));
      this.emitState('completed');
    } catch (error) {
      this.isDirty = true;
      this.emitState('failed');
      this.showFailed(error);
    } finally {
      this._isSaving = false;
      this._writeMs = Math.min(performance.now() - begin, LONGEST_MS / 2);
      // What has changed meanwhile; a failure has its own time.
      if (this._state.kind === 'saved') {
        this.onModel();
      }
    }
  }

  private showFailed(error: unknown): void {
    const { code } = error as { code?: string };
    if (code === 'file_not_found') {
      this.showState({ kind: 'deleted', at: Date.now() });
    } else if (code === 'file_changed' || code === 'file_exists') {
      this.showState({ kind: 'conflict' });
    } else {
      this.showState({ kind: 'failed', why: messageOf(error) });
      this.schedule(RETRY_MS);
    }
  }

  /** Also by another page of this notebook: a file has one version, whoever has written it. Says what it has found. */
  private async isChangedElsewhere(): Promise<boolean> {
    const { path, store } = this;
    try {
      const known = this.version;
      const now = await store.get(path, { content: false });
      if (known === undefined || now.hash === known) {
        return false;
      }
      const theirs = await this.fetch();
      if (this.isSame(theirs)) {
        // Both say the same, so there is nothing to decide.
        this.adopt(theirs);
        return false;
      }
      this.showState({ kind: 'conflict' });
    } catch (error) {
      this.showFailed(error);
    }
    return true;
  }

  /** Takes what another program has written, as long as nothing is unsaved here. */
  private async watch(): Promise<void> {
    const { path, store } = this;
    const isWaiting = this.needsSave || this._state.kind === 'conflict' || this._state.kind === 'old-format';
    if (document.hidden || this._isWatching || !this.isReady || this._isDisposed) {
      return;
    }
    if (isWaiting) {
      // Whoever saves by hand hears of it before.
      if (!this.isAutomatic && this._state.kind === 'dirty') await this.isChangedElsewhere();
      return;
    }
    this._isWatching = true;
    try {
      const now = await store.get(path, { content: false });
      if (now.hash !== this.version) {
        this.take(await this.fetch());
      } else if (this._state.kind === 'deleted') {
        this.showState(this.loaded());
      }
    } catch (error) {
      // Else it is being written, or the gateway is away, which the page says elsewhere.
      const isMissing = (error as { code?: string }).code === 'file_not_found' && path === this.path;
      if (isMissing && !this.isReadOnly) {
        this.showFailed(error);
      }
    } finally {
      this._isWatching = false;
    }
  }

  private take(file: Contents.IModel): void {
    if (this.needsSave) {
      return; // changed meanwhile: the save finds the conflict
    }
    this.show(file);
    this.isDirty = false;
    this.adopt({ ...file, content: null });
    this.showState(this.loaded());
    this._reloaded.emit();
  }

  protected fetch(): Promise<Contents.IModel> {
    return this.store.get(this.path);
  }

  /** The document has changed. */
  protected onModel(): void {
    if (this._isSaving || this.isHalted) {
      return;
    }
    if (!this.isUnsaved) {
      // What has changed was nothing to save, which is said a moment after it has.
      if (this._state.kind === 'dirty') {
        clearTimeout(this._timer);
        this._dirtySince = null;
        this.showState({ kind: 'saved', at: this._savedAt });
      }
      return;
    }
    if (this._state.kind !== 'failed') {
      this.showState({ kind: 'dirty' });
    }
    const now = performance.now();
    this._dirtySince ??= now;
    // A notebook that takes seconds to write would hold up typing again and again.
    const cost = this._writeMs > 1_000 ? 3 * this._writeMs : 0;
    this.schedule(Math.max(0, Math.min(QUIET_MS + cost, this._dirtySince + LONGEST_MS + cost - now)));
  }

  private schedule(waitMs: number): void {
    clearTimeout(this._timer);
    if (this.isAutomatic) this._timer = setTimeout(() => void this.save(), waitMs);
  }

  protected showState(state: SaveState): void {
    if (!this._isDisposed && JSON.stringify(state) !== JSON.stringify(this._state)) {
      this._state = state;
      this._changed.emit();
    }
  }

  private readonly stopWatching: () => void;
  private _state: SaveState = { kind: 'loading' };
  private _savedAt: number | null = null;
  private _dirtySince: number | null = null;
  private _writeMs = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isSaving = false;
  private _isWatching = false;
  private _isDisposed = false;
  private _last: Promise<void> = Promise.resolve();
  protected readonly _changed = new Signal<this, void>(this);
  private readonly _reloaded = new Signal<this, void>(this);
}
