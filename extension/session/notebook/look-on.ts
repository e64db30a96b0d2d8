/**
 * A notebook that this page may only read, kept as its owner has it: cells are taken from the file whenever it was saved, and the kernel
 * is followed once the owner has one. What runs is shown by `followNotebook`, live.
 */
import type { ISharedCodeCell, ISharedNotebook } from '@jupyter/ydoc';
import type { ICell, INotebookContent, IOutput } from '@jupyterlab/nbformat';
import type { CodeCell } from '@jupyterlab/cells';
import type { Session } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import type { BridgeDrive } from '../files/drive.js';
import type { Managers } from '../runtime/managers.js';
import type { OpenNotebook } from './open.js';

/** How soon a change of the owner is seen, beside the moment until the owner's page saves. */
const LOOK_MS = 3_000;

/** The part of Lab's session context that takes a session which is there; its public calls start one or ask for one. */
interface TakesSession {
  _handleNewSession(session: Session.ISessionConnection): void;
}

export class LookingOn {
  constructor(
    private readonly opened: OpenNotebook,
    private readonly drive: BridgeDrive,
    private readonly managers: Managers
  ) {
    const { context, panel } = opened;
    managers.sessions.runningChanged.connect(this.followKernel, this);
    const timer = setInterval(() => void this.look(), LOOK_MS);
    const onVisible = (): void => void this.look();
    document.addEventListener('visibilitychange', onVisible);
    panel.disposed.connect(() => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', onVisible);
      managers.sessions.runningChanged.disconnect(this.followKernel, this);
    });
    void context.sessionContext.ready.then(() => this.followKernel());
  }

  /** Emitted when cells were taken from the file. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  private followKernel(): void {
    const { context } = this.opened;
    const { sessionContext } = context;
    const model = [...this.managers.sessions.running()].find(({ path }) => path === context.path);
    // Until it is ready it looks for a session itself.
    if (sessionContext.isReady && model && sessionContext.session === null) {
      const session = this.managers.sessions.connectTo({ model });
      (sessionContext as unknown as TakesSession)._handleNewSession(session);
    }
  }

  private async look(): Promise<void> {
    const { context, panel } = this.opened;
    if (document.hidden || this._isLooking || !context.isReady || panel.isDisposed) {
      return;
    }
    this._isLooking = true;
    try {
      const now = await this.drive.get(context.path, { content: false });
      if (now.hash === context.contentsModel?.hash) {
        return;
      }
      const file = await this.drive.get(context.path);
      const running = new Set(
        panel.content.widgets
          .filter(widget => (widget as CodeCell).model.executionState === 'running')
          .map(({ model }) => model.id)
      );
      takeCells(context.model.sharedModel, file.content as INotebookContent, running);
      context.model.dirty = false;
      (context as unknown as { _updateContentsModel(model: unknown): void })._updateContentsModel({
        ...file,
        content: null
      });
      this._changed.emit();
    } catch {
      // The file is being written, or the gateway is away, which the page says elsewhere.
    } finally {
      this._isLooking = false;
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private _isLooking = false;
}

/**
 * Makes the cells those of the file. Cells keep their place on the page when they only change.
 *
 * @param running ids of cells whose outputs come live: the file has older ones
 */
export function takeCells(
  shared: ISharedNotebook,
  file: INotebookContent,
  running: ReadonlySet<string>
): void {
  shared.transact(() => {
    const wanted = new Set(file.cells.map(({ id }) => id));
    for (let at = shared.cells.length - 1; at >= 0; at -= 1) {
      if (!wanted.has(shared.getCell(at).id)) {
        shared.deleteCell(at);
      }
    }
    file.cells.forEach((cell, at) => {
      const from = shared.cells.findIndex(({ id }) => id === cell.id);
      if (from < 0 || shared.getCell(from).cell_type !== cell.cell_type) {
        if (from >= 0) {
          shared.deleteCell(from);
        }
        shared.insertCell(at, cell);
        return;
      }
      if (from !== at) {
        shared.moveCell(from, at);
      }
      takeCell(shared, at, cell, running);
    });
  }, false);
}

function takeCell(shared: ISharedNotebook, at: number, cell: ICell, running: ReadonlySet<string>): void {
  const mine = shared.getCell(at);
  const source = textOf(cell.source);
  if (mine.getSource() !== source) {
    mine.setSource(source);
  }
  if (cell.cell_type !== 'code' || running.has(mine.id)) {
    return;
  }
  const code = mine as ISharedCodeCell;
  const outputs = (cell['outputs'] ?? []) as IOutput[];
  if (JSON.stringify(code.getOutputs()) !== JSON.stringify(outputs)) {
    code.setOutputs(outputs);
  }
  const count = cell['execution_count'] as number | null;
  if (code.execution_count !== count) {
    code.execution_count = count;
  }
}

const textOf = (source: ICell['source']): string => (Array.isArray(source) ? source.join('') : source);
