/** Run times of cells: the start of the running cell, and the durations of the others. Stored in the page, not in the file. */
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { type Cell, CodeCell } from '@jupyterlab/cells';
import { Signal } from '@lumino/signaling';

type CellTime =
  | { readonly kind: 'queued' }
  | { readonly kind: 'running'; readonly since: number }
  | { readonly kind: 'done'; readonly ms: number; readonly failed: boolean };

export class Timing {
  constructor(panel: NotebookPanel) {
    const { content } = panel;
    NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
      if (notebook === content) this.set(cell, { kind: 'queued' });
    });
    NotebookActions.executed.connect((_, { notebook, cell, success }) => {
      if (notebook !== content) return;
      const since = this._since.get(cell.model.id);
      this._since.delete(cell.model.id);
      if (since === undefined) {
        this._times.delete(cell.model.id);
        delete cell.node.dataset['tplState'];
        this.changed.emit();
      } else {
        this.set(cell, { kind: 'done', ms: performance.now() - since, failed: !success });
      }
    });
    panel.sessionContext.iopubMessage.connect((_, { header, parent_header }) => {
      // A cell is requested when it is scheduled; it runs when the kernel sends this message, which other pages' cells cause too.
      if (header.msg_type !== 'execute_input' || !('msg_id' in parent_header)) return;
      const { msg_id } = parent_header;
      const cell = content.widgets.find(
        each => this._times.get(each.model.id)?.kind === 'queued' && requestOf(each) === msg_id
      );
      if (cell) {
        const now = performance.now();
        this._since.set(cell.model.id, now);
        this.set(cell, { kind: 'running', since: now });
      }
    });
    // Cells queued on an ended or restarted kernel no longer wait.
    panel.sessionContext.statusChanged.connect((_, status) => {
      if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
        this._times.clear();
        this._since.clear();
        for (const { node } of content.widgets) delete node.dataset['tplState'];
        this.changed.emit();
      }
    });
  }

  readonly changed = new Signal<this, void>(this);

  of(cellId: string): CellTime | null {
    return this._times.get(cellId) ?? null;
  }

  /** Cells that this page has run. */
  get isRunning(): boolean {
    return [...this._times.values()].some(({ kind }) => kind === 'running');
  }

  get queued(): number {
    return [...this._times.values()].filter(({ kind }) => kind === 'queued').length;
  }

  private set(cell: Cell, time: CellTime): void {
    this._times.set(cell.model.id, time);
    cell.node.dataset['tplState'] = time.kind === 'done' && time.failed ? 'failed' : time.kind;
    this.changed.emit();
  }

  private readonly _times = new Map<string, CellTime>();
  private readonly _since = new Map<string, number>();
}

/** Id of the last request of a cell; undefined: none was made. */
function requestOf(cell: Cell): string | undefined {
  // Before the first request there is no future, although its type promises one.
  const future =
    cell instanceof CodeCell
      ? (cell.outputArea.future as CodeCell['outputArea']['future'] | undefined)
      : undefined;
  return future?.msg.header.msg_id;
}
