/**
 * Up to which record of its kernel a notebook's file shows the outputs. A page may save while outputs of cells that have ended are
 * still on their way to it: by the time of the save they would count as shown. The browser keeps the number for the next page.
 */
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Kernel } from '@jupyterlab/services';
import type { ChannelLink } from '../backends/channel-link.js';
import { pageStorage } from '../platform/page-storage.js';
import type { ISaved } from './notebook.js';

const KEY = 'tpulab:shown-in-files';
/** Notebooks, the one that was saved last at the end. */
const MAX_FILES = 200;

type Files = Record<string, ISaved & { readonly file: string }>;

type IShown = Required<Pick<ISaved, 'kernel' | 'seq'>>;

export interface IFollowed {
  readonly link: Pick<ChannelLink, 'position'>;
  /** The cells have been brought up to this record. */
  readonly until: number;
}

export class SavedMark {
  /** @param storage what pages of this browser share */
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
    });
    context.fileChanged.connect(() => {
      if (this._saving === null) {
        this._base = this.loaded();
      } else {
        this.store(this._saving);
      }
    });
  }

  /** What the cells of this page show without what its kernel brings. */
  get base(): ISaved {
    return this._base;
  }

  /** From now on the page shows what this kernel puts out. */
  follow(kernel: Kernel.IKernelConnection, { link, until }: IFollowed, signal: AbortSignal): void {
    const newest = (): IShown => ({ kernel: kernel.id, seq: Math.max(until, link.position ?? 0) });
    this._shown = { kernel: kernel.id, seq: until };
    const onMessage = (): void => {
      const shown = newest();
      // A message has been handed over by then, and waits for those before it.
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
    return known !== undefined && known.file === contentsModel?.last_modified
      ? known
      : { at: this.fileTime() };
  }

  private fileTime(): number | null {
    const time = Date.parse(this.context.contentsModel?.last_modified ?? '');
    return Number.isNaN(time) ? null : time;
  }

  private store(saved: ISaved): void {
    const { contentsModel, path } = this.context;
    const { [path]: _, ...others } = this.read();
    const files = Object.entries({
      ...others,
      [path]: { ...saved, file: contentsModel?.last_modified ?? '' }
    });
    try {
      this.storage?.setItem(KEY, JSON.stringify(Object.fromEntries(files.slice(-MAX_FILES))));
    } catch {
      // Full: then the time of the file decides.
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
