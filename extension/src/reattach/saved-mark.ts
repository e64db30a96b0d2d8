/**
 * The record of its kernel up to which a notebook's file contains the outputs. A page may save while outputs of ended cells are
 * still on their way to it: by the time of the save they would count as shown. The browser stores the number for the next page.
 */
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Kernel } from '@jupyterlab/services';
import type { ChannelLink } from '../backends/channel-link.js';
import { pageStorage } from '../platform/page-storage.js';
import type { ISaved } from './notebook.js';

const KEY = 'tpulab:shown-in-files';
/** Notebooks, the last saved at the end. */
const MAX_FILES = 200;

/** @property isOpen the page was left, or its connection cut, between the start and the end of a save */
type Stored = ISaved & { readonly isOpen?: boolean };

type Files = Record<string, Stored & { readonly file: string }>;

type IShown = Required<Pick<ISaved, 'kernel' | 'seq'>>;

interface IFollowed {
  readonly link: Pick<ChannelLink, 'position'>;
  /** The cells have been brought up to this record. */
  readonly until: number;
}

export class SavedMark {
  /** @param storage storage shared by the pages of this browser */
  constructor(
    private readonly context: Pick<
      DocumentRegistry.Context,
      'contentsModel' | 'path' | 'saveState' | 'fileChanged'
    >,
    private readonly storage: Pick<Storage, 'getItem' | 'setItem'> | null = pageStorage()
  ) {
    this._base = this.loaded();
    context.saveState.connect((_, state) => {
      this._saving = state === 'started' ? this.now() : null;
      // The page may be left before the answer, and the file is written nevertheless.
      if (this._saving !== null) this.store({ ...this._saving, isOpen: true });
    });
    context.fileChanged.connect(() => {
      if (this._saving === null) this._base = this.loaded();
      else this.store(this._saving);
    });
  }

  /** The page's cells without further messages of the kernel. */
  get base(): ISaved {
    return this._base;
  }

  /** From now on the page shows the outputs of this kernel. */
  follow(kernel: Kernel.IKernelConnection, { link, until }: IFollowed, signal: AbortSignal): void {
    const newest = (): IShown => ({ kernel: kernel.id, seq: Math.max(until, link.position ?? 0) });
    this._shown = { kernel: kernel.id, seq: until };
    const onMessage = (): void => {
      const shown = newest();
      // At this point the message has been handed over, and waits for earlier ones.
      const { _msgChain: handled } = kernel as { readonly _msgChain?: Promise<void> };
      void Promise.resolve(handled).then(() => {
        if (!signal.aborted) this._shown = shown;
      });
    };
    kernel.anyMessage.connect(onMessage);
    signal.addEventListener('abort', () => {
      kernel.anyMessage.disconnect(onMessage);
      this._base = this.now();
      this._shown = null;
    });
  }

  private now(): ISaved {
    return this._shown === null ? this._base : { at: this.fileTime(), ...this._shown };
  }

  private loaded(): ISaved {
    const { contentsModel, path } = this.context;
    const known = this.read()[path];
    if (known === undefined) return { at: this.fileTime() };
    const { file, isOpen = false, ...saved } = known;
    return isOpen || file === contentsModel?.last_modified ? saved : { at: this.fileTime() };
  }

  private fileTime(): number | null {
    const time = Date.parse(this.context.contentsModel?.last_modified ?? '');
    return Number.isNaN(time) ? null : time;
  }

  private store(saved: Stored): void {
    const { contentsModel, path } = this.context;
    const { [path]: _, ...others } = this.read();
    const files = Object.entries({
      ...others,
      [path]: { ...saved, file: contentsModel?.last_modified ?? '' }
    });
    try {
      this.storage?.setItem(KEY, JSON.stringify(Object.fromEntries(files.slice(-MAX_FILES))));
    } catch {
      // Storage is full: then the time of the file decides.
    }
  }

  private read(): Files {
    try {
      const files: unknown = JSON.parse(this.storage?.getItem(KEY) ?? '{}');
      return typeof files === 'object' && files !== null ? (files as Files) : {};
    } catch {
      return {};
    }
  }

  private _base: ISaved;
  private _shown: IShown | null = null;
  private _saving: ISaved | null = null;
}
