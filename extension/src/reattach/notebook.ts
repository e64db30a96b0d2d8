/** The interface of an open notebook for reattaching. The plugin passes Lab's own; specs pass a small one. */
import type { IOutput } from '@jupyterlab/nbformat';
import type { Kernel, KernelMessage } from '@jupyterlab/services';

export type ExecuteFuture = Kernel.IShellFuture<
  KernelMessage.IExecuteRequestMsg,
  KernelMessage.IExecuteReplyMsg
>;

/** The outputs of a cell, as in the file. */
export interface IShownCell {
  readonly id: string;
  readonly source: string;
  readonly outputs: readonly IOutput[];
  readonly executionCount: number | null;
}

export interface ICodeCell {
  read(): IShownCell;
  /** Whether it has been run in this page: then its outputs are correct. */
  readonly isRunHere: boolean;
  /**
   * For a read-only page that runs nothing: the message id of the run whose outputs the cell shows, null for none. Any other run
   * is new to it. Undefined in pages that run cells themselves.
   */
  readonly shownRun?: string | null;
  /** As at the start of a run: no outputs, `[*]`. Untrusted output is shown without its scripts until the user acts. */
  begin(isTrusted: boolean): void;
  /** Replaces its outputs; no more follow. */
  show(outputs: readonly IOutput[]): void;
  /** Outputs of this future go to the cell from now on. */
  attach(future: ExecuteFuture): void;
  /** Whether its outputs still come from this future. */
  shows(future: ExecuteFuture): boolean;
  /** As at the end of a run. */
  end(executionCount: number | null): void;
}

/** The position up to which a file contains a kernel's outputs. */
export interface ISaved {
  /** Time of the save, Unix milliseconds; null when unknown. */
  readonly at: number | null;
  /** The kernel whose records it contains, and the newest of them; for other kernels the time decides. */
  readonly kernel?: string;
  readonly seq?: number;
}

export interface INotebook {
  /** State of the file as it was loaded. */
  readonly saved: ISaved;
  /** Whether a cell has the same id each time the file is opened. */
  readonly keepsCellIds: boolean;
  /** Whether other users' pages share the same cells: outputs filled by one page appear in all. */
  readonly isShared: boolean;
  readonly isDisposed: boolean;
  isDirty: boolean;
  /** The whole file content, for detecting changes. */
  content(): unknown;
  codeCells(): ReadonlyMap<string, ICodeCell>;
}
