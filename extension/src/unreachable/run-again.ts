/** The cells that have run in the kernel of one notebook, so that they can run again in the next kernel after a loss. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Cell, CodeCell } from '@jupyterlab/cells';
import type { IChangedArgs } from '@jupyterlab/coreutils';
import type { Notebook, NotebookActions } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';

export interface IRunAgainOptions {
  readonly notebook: Notebook;
  readonly sessionContext: ISessionContext;
  readonly executed: typeof NotebookActions.executed;
  readonly runCells: (
    notebook: Notebook,
    cells: readonly Cell[],
    context: ISessionContext
  ) => Promise<unknown>;
}

export class RunAgain implements IDisposable {
  constructor(private readonly options: IRunAgainOptions) {
    const { sessionContext, executed } = options;
    executed.connect(this.onExecuted, this);
    sessionContext.statusChanged.connect(this.onStatus, this);
    sessionContext.connectionStatusChanged.connect(this.noteRunning, this);
    sessionContext.kernelChanged.connect(this.onKernel, this);
    this._kernelId = sessionContext.session?.kernel?.id ?? null;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      const { sessionContext, executed } = this.options;
      executed.disconnect(this.onExecuted, this);
      sessionContext.statusChanged.disconnect(this.onStatus, this);
      sessionContext.connectionStatusChanged.disconnect(this.noteRunning, this);
      sessionContext.kernelChanged.disconnect(this.onKernel, this);
    }
  }

  /** The cells that have run in this kernel, in the order of their runs. */
  get begun(): readonly string[] {
    const cells = this.cells;
    const present = new Set(cells.map(({ model }) => model.id));
    const begun = [...this._begun].filter(id => present.has(id));
    if (this._hasSeenStart) return begun;
    // A cell with a number may have run before this page was opened.
    const numbered = cells
      .filter(({ model }) => model.executionCount !== null && !this._begun.has(model.id))
      .sort((one, other) => (one.model.executionCount ?? 0) - (other.model.executionCount ?? 0));
    return [...numbered.map(({ model }) => model.id), ...begun];
  }

  /** Starts a new kernel with `start`; then runs the cell `last`, and before it the cells above that had run. Stops at the first error. */
  async from(last: string, start: () => Promise<unknown>): Promise<void> {
    const { notebook, sessionContext, runCells } = this.options;
    const order = this.cells.map(({ model }) => model.id);
    // If the kernel did not start the last time, the cells due then are still due.
    this._unfinished = new Set([...cellsToRunAgain(order, last, new Set(this.begun)), ...this._unfinished]);
    const again = this.cells.filter(({ model }) => this._unfinished.has(model.id));
    this._isOurs = true;
    try {
      await start();
    } finally {
      this._isOurs = false;
    }
    await runCells(notebook, again, sessionContext);
  }

  private get cells(): CodeCell[] {
    return this.options.notebook.widgets.filter(({ model }) => model.type === 'code') as CodeCell[];
  }

  private onExecuted(
    _: unknown,
    { notebook, cell, success }: { notebook: Notebook; cell: Cell; success: boolean }
  ): void {
    if (notebook === this.options.notebook) {
      if (success) this._unfinished.delete(cell.model.id);
      this.note(cell.model.id);
    }
  }

  private onStatus(_: unknown, status: string): void {
    if (status === 'restarting' || status === 'autorestarting') this.startOver();
    else this.noteRunning();
  }

  private onKernel(
    _: unknown,
    { newValue }: IChangedArgs<Kernel.IKernelConnection | null, Kernel.IKernelConnection | null, 'kernel'>
  ): void {
    if (newValue !== null && newValue.id !== this._kernelId) {
      if (this._kernelId !== null) this.startOver();
      this._kernelId = newValue.id;
    }
  }

  private startOver(): void {
    this._hasSeenStart = true;
    this._begun = new Set();
    if (!this._isOurs) this._unfinished = new Set();
  }

  /** Running cells lose that state with their kernel. */
  private noteRunning(): void {
    for (const { model } of this.cells) {
      if (model.executionState === 'running' && !this._begun.has(model.id)) this.note(model.id);
    }
  }

  private note(id: string): void {
    this._begun.delete(id);
    this._begun.add(id);
  }

  /** In the order of their runs. */
  private _begun = new Set<string>();
  /** Whether this page was open when the kernel started. */
  private _hasSeenStart = false;
  private _kernelId: string | null;
  /** Cells due in the last new kernel that have not completed. */
  private _unfinished = new Set<string>();
  /** The new kernel is ours, and not a restart by the user. */
  private _isOurs = false;
  private _isDisposed = false;
}

/** `last`, and before it the cells above in `hasRun`, in the order of the notebook. */
export function cellsToRunAgain(
  order: readonly string[],
  last: string,
  hasRun: ReadonlySet<string>
): string[] {
  return order.slice(0, order.indexOf(last) + 1).filter(id => id === last || hasRun.has(id));
}
