/** What reattaching needs of an open notebook. The plugin gives it Lab's own; specs give it a small one. */
import type { IOutput } from '@jupyterlab/nbformat';
import type { Kernel, KernelMessage } from '@jupyterlab/services';

export type ExecuteFuture = Kernel.IShellFuture<
  KernelMessage.IExecuteRequestMsg,
  KernelMessage.IExecuteReplyMsg
>;

/** What a cell shows, as the file would have it. */
export interface IShownCell {
  readonly id: string;
  readonly source: string;
  readonly outputs: readonly IOutput[];
  readonly executionCount: number | null;
}

export interface ICodeCell {
  read(): IShownCell;
  /** Whether it has been run in this page: then its outputs are what they should be. */
  readonly isRunHere: boolean;
  /**
   * For a page that runs nothing and looks on: the message id of the run whose outputs the cell takes, null for none. Any other run
   * is news to it. Undefined in pages that run cells themselves.
   */
  readonly shownRun?: string | null;
  /** As at the start of a run: no outputs, `[*]`. What is not trusted is shown without its scripts until the person acts. */
  begin(isTrusted: boolean): void;
  /** Puts these in place of its outputs; nothing follows. */
  show(outputs: readonly IOutput[]): void;
  /** Outputs of this future are the cell's from now on. */
  attach(future: ExecuteFuture): void;
  /** Whether its outputs are still this future's. */
  shows(future: ExecuteFuture): boolean;
  /** As at the end of a run. */
  end(executionCount: number | null): void;
}

/** Up to where a file has what a kernel has put out. */
export interface ISaved {
  /** When it was written, Unix milliseconds; null when that is not known. */
  readonly at: number | null;
  /** The kernel whose records it shows, and the newest of them; of other kernels the time decides. */
  readonly kernel?: string;
  readonly seq?: number;
}

export interface INotebook {
  /** Of the file as it was loaded. */
  readonly saved: ISaved;
  /** Whether a cell has the same id each time the file is opened. */
  readonly keepsCellIds: boolean;
  /** Whether other people's pages have the same cells: what one of them fills stands in all. */
  readonly isShared: boolean;
  readonly isDisposed: boolean;
  isDirty: boolean;
  /** Everything that would be written to the file, to see whether anything has changed. */
  content(): unknown;
  codeCells(): ReadonlyMap<string, ICodeCell>;
}
