/** An open notebook of Lab's as `INotebook`. */
import type { CodeCell, ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ExecuteFuture, ICodeCell, INotebook, ISaved, IShownCell } from './notebook.js';
import type { SavedMark } from './saved-mark.js';

/** Of nbformat 4. */
const FIRST_MINOR_WITH_IDS = 5;

export class LabNotebook implements INotebook {
  /** @param isWatchOnly the page runs nothing, and shows the runs of others */
  constructor(
    private readonly panel: NotebookPanel,
    private readonly mark: SavedMark,
    private readonly isWatchOnly = false
  ) {}

  get saved(): ISaved {
    return this.mark.base;
  }

  get keepsCellIds(): boolean {
    const { model, localPath } = this.panel.context;
    // A text file has no place for them, and Lab drops ids of an older format.
    return (
      localPath.endsWith('.ipynb') && (model.nbformat > 4 || model.nbformatMinor >= FIRST_MINOR_WITH_IDS)
    );
  }

  get isShared(): boolean {
    return this.panel.context.model.collaborative === true;
  }

  get isDisposed(): boolean {
    return this.panel.isDisposed;
  }

  get isDirty(): boolean {
    return this.panel.context.model.dirty;
  }
  set isDirty(value: boolean) {
    this.panel.context.model.dirty = value;
  }

  content(): unknown {
    return this.panel.context.model.toJSON();
  }

  codeCells(): ReadonlyMap<string, ICodeCell> {
    const cells = this.panel.content.widgets.filter(widget => widget.model.type === 'code');
    return new Map(cells.map(widget => [widget.model.id, new LabCell(widget as CodeCell, this.isWatchOnly)]));
  }
}

class LabCell implements ICodeCell {
  constructor(
    private readonly widget: CodeCell,
    private readonly isWatchOnly: boolean
  ) {}

  get isRunHere(): boolean {
    return this.future !== null;
  }

  get shownRun(): string | null | undefined {
    return this.isWatchOnly ? (this.future?.msg.header.msg_id ?? null) : undefined;
  }

  /** A cell never run in this page has no future, whatever the type declares. */
  private get future(): ExecuteFuture | null {
    const future = this.widget.outputArea.future as unknown;
    return future == null ? null : (future as ExecuteFuture);
  }

  read(): IShownCell {
    const { id, outputs, executionCount, sharedModel } = this.model;
    return {
      id,
      source: sharedModel.getSource().replaceAll('\r\n', '\n'),
      outputs: outputs.toJSON(),
      executionCount
    };
  }

  begin(isTrusted: boolean): void {
    const { model, widget } = this;
    // Not an edit that could be undone; the same as at the start of a run.
    model.sharedModel.transact(
      () => {
        model.clearExecution();
        widget.outputHidden = false;
      },
      false,
      'silent-change'
    );
    model.executionState = 'running';
    model.trusted = isTrusted;
  }

  show(outputs: readonly IOutput[]): void {
    this.model.outputs.fromJSON([...outputs]);
  }

  attach(future: ExecuteFuture): void {
    this.widget.outputArea.reattachFuture(future);
  }

  shows(future: ExecuteFuture): boolean {
    return !this.widget.isDisposed && this.widget.outputArea.future === future;
  }

  end(executionCount: number | null): void {
    if (!this.widget.isDisposed) {
      this.model.executionCount = executionCount;
      this.model.executionState = 'idle';
    }
  }

  private get model(): ICodeCellModel {
    return this.widget.model;
  }
}
