/** For specs: the cells of a notebook and the notifications of their runs, without a page. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Cell } from '@jupyterlab/cells';
import type { Notebook } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import type { IRunAgainOptions } from '../unreachable/run-again.js';

interface IKernel {
  readonly id: string;
  readonly name: string;
}

export class RunNotebook {
  /** Ids of cells, a list for each time that cells were run. */
  readonly ran: string[][] = [];
  readonly sessionChanged = new Signal<object, object>({});
  readonly statusChanged = new Signal<object, string>({});
  readonly kernelChanged = new Signal<object, object>({});
  readonly connectionStatusChanged = new Signal<object, string>({});
  readonly executed = new Signal<object, { notebook: Notebook; cell: Cell; success: boolean }>({});
  restarts = 0;
  readonly options: IRunAgainOptions;
  private readonly cells: {
    model: { type: string; id: string; executionCount: number | null; executionState: string };
  }[];
  private readonly outputs = new Map<string, object[]>();
  private readonly session: { kernel: IKernel | null };

  constructor(ids: readonly string[], kernel: IKernel) {
    this.session = { kernel };
    this.cells = ids.map(id => ({
      model: {
        type: 'code',
        id,
        executionCount: null,
        executionState: 'idle',
        outputs: { toJSON: () => this.outputs.get(id) ?? [] }
      }
    }));
    this.options = {
      notebook: { widgets: this.cells } as unknown as Notebook,
      sessionContext: {
        ready: Promise.resolve(),
        session: this.session,
        sessionChanged: this.sessionChanged,
        statusChanged: this.statusChanged,
        kernelChanged: this.kernelChanged,
        connectionStatusChanged: this.connectionStatusChanged,
        restartKernel: () => {
          this.restarts += 1;
          this.statusChanged.emit('restarting');
          return Promise.resolve();
        }
      } as unknown as ISessionContext,
      executed: this.executed,
      runCells: (_, cells) => {
        this.ran.push(cells.map(({ model }) => model.id));
        return Promise.resolve(true);
      }
    };
  }

  cell(id: string): (typeof this.cells)[number]['model'] {
    const cell = this.cells.find(({ model }) => model.id === id);
    if (cell === undefined) {
      throw new Error(`no cell ${id}`);
    }
    return cell.model;
  }

  show(id: string, ...outputs: object[]): void {
    this.outputs.set(id, outputs);
  }

  /** Runs a cell to its end; the cell fails if it has outputs. */
  run(id: string, count: number, ...outputs: object[]): void {
    const model = this.cell(id);
    model.executionCount = count;
    this.show(id, ...outputs);
    const { notebook } = this.options;
    this.executed.emit({ notebook, cell: { model } as unknown as Cell, success: outputs.length === 0 });
    this.statusChanged.emit('idle');
  }

  /** Lab's notification when the kernel is no longer in any list. */
  loseKernel(): void {
    this.session.kernel = null;
    this.sessionChanged.emit({ name: 'session', oldValue: {}, newValue: null });
  }

  useKernel(kernel: IKernel): void {
    this.session.kernel = kernel;
    this.kernelChanged.emit({ name: 'kernel', oldValue: null, newValue: kernel });
  }
}
