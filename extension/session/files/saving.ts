/**
 * Keeps a document and its file in sync: saves automatically, loads changes of other programs while nothing is unsaved here, and
 * reports the state of both exactly. It never overwrites another program's change and never recreates a deleted file: in these
 * cases the user decides.
 */
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { messageOf } from '../text.js';
import type { BridgeDrive } from './drive.js';
import type { Part } from './notebook-text.js';

/** Wait after the last change; during continuous changes, the longest wait after the first one. */
const QUIET_MS = 1_500;
const MAX_MS = 10_000;
/** Pause before a failed save is tried again. */
const RETRY_MS = 15_000;
/** Interval at which the file is checked for changes. */
const WATCH_MS = 3_000;

export type SaveState =
  | { readonly kind: 'loading' }
  | { readonly kind: 'read-only' }
  /** `at`: Unix milliseconds of this page's save; null: as loaded. */
  | { readonly kind: 'saved'; readonly at: number | null }
  | { readonly kind: 'dirty' }
  | { readonly kind: 'saving' }
  | { readonly kind: 'failed'; readonly why: string }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'unreadable'; readonly why?: string }
  /** `at`: when this page noticed it. */
  | { readonly kind: 'deleted'; readonly at: number }
  /** The file stays in this format until the user converts it. */
  | { readonly kind: 'old-format'; readonly version: number };

/** Location of the document: below the root folder of the gateway, or in a browser file. */
export type FileStore = Pick<BridgeDrive, 'get' | 'save' | 'create' | 'text'> &
  Partial<Pick<BridgeDrive, 'discard' | 'forget'>>;

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

  /** Adds further content that belongs in the file. */
  prepare: () => Promise<void> = () => Promise.resolve();

  abstract readonly path: string;
  /** The document as a save would write it. */
  abstract text(): string;
  abstract parts(text: string): readonly Part[];
  protected abstract readonly isReady: boolean;
  protected abstract isDirty: boolean;
  /** Version of the file that the document is based on. */
  protected abstract readonly version: string | undefined;
  protected readonly isAutomatic: boolean = true;
  protected abstract content(): Partial<Contents.IModel>;
  protected abstract isSame(theirs: Contents.IModel): boolean;
  /** Applies the file's content to the document, only where it has changed. */
  protected abstract show(file: Contents.IModel): void;
  /** Loads the file and discards local changes. */
  protected abstract revert(): Promise<void>;
  /** The file has this version from now on. */
  protected abstract adopt(model: Contents.IModel): void;

  get state(): SaveState {
    return this._state;
  }
  readonly changed = new Signal<this, void>(this);

  /** Emitted when the document was reloaded from the file. */
  readonly reloaded = new Signal<this, void>(this);

  get isDisposed(): boolean {
    return this._isDisposed;
  }
  /** Whether leaving the page would lose changes, even while a save is in flight. */
  get needsSave(): boolean {
    return this._isSaving || this.isUnsaved;
  }
  /** Whether discarded changes go to the trash: a file on this computer has no trash. */
  get hasTrash(): boolean {
    return this.store.discard !== undefined;
  }

  /** Resolves when the page's present content is saved, or cannot be saved. Never rejects. */
  save(): Promise<void> {
    this._last = this._last.then(() => this.saveNow());
    return this._last;
  }

  /** Reports that the file cannot be shown. */
  fail(why?: string): void {
    this.showState({ kind: 'unreadable', ...(why !== undefined && { why }) });
  }

  /** The file's present content. */
  theirs(): Promise<string> {
    return this.store.text(this.path);
  }

  /** Loads the version on disk; this page's version goes into a file beside it. Resolves with the name of that file. */
  async keepBoth(): Promise<string> {
    const path = await this.saveCopy('-mine');
    await this.load();
    return path;
  }

  /** Saves to a new file: `to`, or a file beside this one whose name has this ending. Resolves with its path. */
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

  /** Overwrites another program's change, or recreates a deleted file. */
  async overwrite(): Promise<void> {
    const { path, store } = this;
    if (this._state.kind === 'deleted') {
      await store.forget?.(path);
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

  /** Notifies the document, and the page, of a save. */
  protected emitState(state: DocumentRegistry.SaveState): void {
    if (state === 'completed') {
      this._savedAt = Date.now();
      this.showState({ kind: 'saved', at: this._savedAt });
    }
  }

  private get isUnsaved(): boolean {
    return !this.isReadOnly && this.isReady && this.isDirty;
  }

  /** Whether the user has to decide what happens next. */
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
    // A failure to add further content does not prevent the save.
    await this.prepare().catch(() => undefined);
    this.emitState('started');
    const content = this.content();
    // Later changes are not in this save, and have to be saved again.
    this.isDirty = false;
    try {
      this.adopt(await this.store.save(this.path, content));
      this.emitState('completed');
    } catch (error) {
      this.isDirty = true;
      this.emitState('failed');
      if ((error as { code?: string }).code !== 'file_changed') {
        this.showFailed(error);
      } else if (!(await this.isChangedElsewhere())) {
        // Another page has saved the same in the meantime.
        this.showState({ kind: 'dirty' });
        this.schedule(QUIET_MS);
      }
    } finally {
      this._isSaving = false;
      this._writeMs = Math.min(performance.now() - begin, MAX_MS / 2);
      // For changes made during the save; a failure has its own retry time.
      if (this._state.kind === 'saved') this.onModel();
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

  /** Also detects a change by another page of this notebook: a file has one version, whoever wrote it. Reports the result. */
  private async isChangedElsewhere(): Promise<boolean> {
    const { path, store } = this;
    try {
      const known = this.version;
      const now = await store.get(path, { content: false });
      if (known === undefined || now.hash === known) return false;
      const theirs = await this.fetch();
      if (this.isSame(theirs)) {
        // Both have the same content, so there is nothing to decide.
        this.adopt(theirs);
        return false;
      }
      this.showState({ kind: 'conflict' });
    } catch (error) {
      this.showFailed(error);
    }
    return true;
  }

  /** Loads a change of another program, as long as nothing is unsaved here. */
  private async watch(): Promise<void> {
    const { path, store } = this;
    const isWaiting = this.needsSave || this._state.kind === 'conflict' || this._state.kind === 'old-format';
    if (document.hidden || this._isWatching || !this.isReady || this._isDisposed) return;
    if (isWaiting) {
      // With manual saving, a changed file is reported before the user saves.
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
      // Otherwise the file is being written, or the gateway is unreachable, which the page reports elsewhere.
      const isMissing = (error as { code?: string }).code === 'file_not_found' && path === this.path;
      if (isMissing && !this.isReadOnly) this.showFailed(error);
    } finally {
      this._isWatching = false;
    }
  }

  private take(file: Contents.IModel): void {
    if (this.needsSave) {
      return; // changed in the meantime: the save finds the conflict
    }
    this.show(file);
    this.isDirty = false;
    this.adopt({ ...file, content: null });
    this.showState(this.loaded());
    this.reloaded.emit();
  }

  protected fetch(): Promise<Contents.IModel> {
    return this.store.get(this.path);
  }

  /** The document has changed. */
  protected onModel(): void {
    if (this._state.kind === 'conflict') this.changed.emit();
    if (this._isSaving || this.isHalted) return;
    if (!this.isUnsaved) {
      // The change turned out to need no save.
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
    // A notebook that takes seconds to write would block typing again and again.
    const cost = this._writeMs > 1_000 ? 3 * this._writeMs : 0;
    this.schedule(Math.max(0, Math.min(QUIET_MS + cost, this._dirtySince + MAX_MS + cost - now)));
  }

  private schedule(waitMs: number): void {
    clearTimeout(this._timer);
    if (this.isAutomatic) this._timer = setTimeout(() => void this.save(), waitMs);
  }

  protected showState(state: SaveState): void {
    if (!this._isDisposed && JSON.stringify(state) !== JSON.stringify(this._state)) {
      this._state = state;
      this.changed.emit();
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
}
