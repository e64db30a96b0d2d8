/** Follows one notebook on a slice. When a host is lost, it offers to restart all hosts and to run the required cells again. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import type { IError } from '@jupyterlab/nbformat';
import type { IDisposable } from '@lumino/disposable';
import { type IRunAgainOptions, RunAgain } from '../unreachable/run-again.js';
import { isSliceKernel } from '../backends/spec-names.js';
import type { NoticePlace } from '../ui/notebook-notice.js';
import { trans } from '../text/trans.js';

interface IGroupWatchOptions extends IRunAgainOptions {
  readonly sessionContext: ISessionContext;
  readonly notice: Pick<NoticePlace, 'show' | 'clear'>;
}

export class GroupWatch implements IDisposable {
  constructor(private readonly options: IGroupWatchOptions) {
    // It must be notified of runs and restarts before this object.
    this._runs = new RunAgain(options);
    const { sessionContext, executed } = options;
    executed.connect(this.onExecuted, this);
    sessionContext.statusChanged.connect(this.onStatus, this);
    sessionContext.kernelChanged.connect(this.poll, this);
    void sessionContext.ready.then(() => this.poll());
  }

  get isDisposed(): boolean {
    return this._runs.isDisposed;
  }

  dispose(): void {
    if (!this.isDisposed) {
      this._runs.dispose();
      const { sessionContext, executed } = this.options;
      executed.disconnect(this.onExecuted, this);
      sessionContext.statusChanged.disconnect(this.onStatus, this);
      sessionContext.kernelChanged.disconnect(this.poll, this);
    }
  }

  /** Null: all hosts run, or the kernel is not a slice. */
  get lost(): ILostGroup | null {
    return this._lost;
  }

  /** Restarts all hosts; then runs the failed cell, and before it the cells above that had run. Stops at the first error. */
  async runAgain(): Promise<void> {
    const lost = this._lost;
    const { sessionContext, notice } = this.options;
    if (lost !== null) {
      notice.clear();
      await this._runs.from(lost.cellId, () => sessionContext.restartKernel());
    }
  }

  private onExecuted(_: unknown, { notebook }: { notebook: unknown }): void {
    if (notebook === this.options.notebook) this.poll();
  }

  private onStatus(_: unknown, status: string): void {
    if (status === 'restarting' || status === 'autorestarting') {
      this.set(null);
    } else if (status === 'idle' || status === 'busy') {
      this.poll();
    }
  }

  private poll(): void {
    if (this.isDisposed) return;
    const { session } = this.options.sessionContext;
    // Other cells show outputs of the processes before the last restart.
    const begun = new Set(this._runs.begun);
    const cells = this.read().filter(({ id }) => begun.has(id));
    this.set(isSliceKernel(session?.kernel?.name) ? lostGroup(cells) : null);
  }

  private set(lost: ILostGroup | null): void {
    const { notice } = this.options;
    const before = this._lost;
    this._lost = lost;
    if (lost === null) {
      if (before !== null) notice.clear();
    } else if (!isSame(lost, before)) {
      notice.show({
        text: trans.__(
          '%1. All hosts were ended. Restart them to run this cell again, after the cells above it that had run.',
          lost.reason
        ),
        actions: [{ label: trans.__('Restart and rerun'), onClick: () => void this.runAgain() }]
      });
    }
  }

  private read(): IRunCell[] {
    return this.options.notebook.widgets.flatMap(({ model }) => {
      if (model.type !== 'code') return [];
      const { id, executionCount, executionState, outputs } = model as CodeCell['model'];
      return [
        {
          id,
          // A cell that was running when the page was opened gets its number a moment after the kernel is idle.
          executionCount: executionState === 'running' ? Infinity : executionCount,
          get error() {
            const output = outputs.toJSON().findLast(one => one.output_type === 'error') as
              | IError
              | undefined;
            return output === undefined ? null : { name: output.ename, value: output.evalue };
          }
        }
      ];
    });
  }

  private readonly _runs: RunAgain;
  private _lost: ILostGroup | null = null;
}

function isSame(one: ILostGroup, other: ILostGroup | null): boolean {
  const isNumbered = other?.executionCount !== Infinity;
  return one.cellId === other?.cellId && (!isNumbered || one.executionCount === other.executionCount);
}

/** A cell that has run, with the data that shows whether hosts of its slice were lost. */
export interface IRunCell {
  readonly id: string;
  readonly executionCount: number | null;
  /** The error that its outputs end with. */
  readonly error: { readonly name: string; readonly value: string } | null;
}

interface ILostGroup {
  readonly cellId: string;
  readonly executionCount: number | null;
  /** The first sentence of the error. */
  readonly reason: string;
}

/** After these the kernel runs no cell before it is restarted. */
const GROUP_END_ERRORS = new Set(['HostLostError', 'GroupEndedError', 'SliceStartError', 'SliceError']);

/** Null when the cell that ran last did not end with the loss of a host. */
export function lostGroup(cells: readonly IRunCell[]): ILostGroup | null {
  const last = cells.reduce<IRunCell | null>(
    (newest, cell) => ((cell.executionCount ?? -1) > (newest?.executionCount ?? -1) ? cell : newest),
    null
  );
  if (!last?.error || !GROUP_END_ERRORS.has(last.error.name)) return null;
  const [reason = ''] = last.error.value.split(/\.(?:\s|$)/, 1);
  return { cellId: last.id, executionCount: last.executionCount, reason };
}
