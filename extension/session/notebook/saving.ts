/** A notebook and its file. */
import type { CodeCell } from '@jupyterlab/cells';
import type { Context, DocumentRegistry } from '@jupyterlab/docregistry';
import type { IAttachments, ICell, INotebookContent, IOutput } from '@jupyterlab/nbformat';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { Signal } from '@lumino/signaling';
import type { ISharedCodeCell, ISharedMarkdownCell, ISharedNotebook } from '@jupyter/ydoc';
import type { BridgeDrive } from '../files/drive.js';
import type { Part } from '../files/notebook-text.js';
import { type FileStore, type SaveState, Saving } from '../files/saving.js';

export type NotebookStore = FileStore &
  Pick<BridgeDrive, 'notebooks'> &
  Partial<Pick<BridgeDrive, 'replace'>>;

export class NotebookSaving extends Saving {
  constructor(
    private readonly panel: NotebookPanel,
    private readonly drive: NotebookStore,
    isReadOnly: boolean
  ) {
    super(drive, isReadOnly);
    const context = panel.context as Context<INotebookModel>;
    this.context = context;
    context.saveState.connect((_, state) => super.emitState(state));
    context.model.stateChanged.connect(this.onModel, this);
    context.model.contentChanged.connect(this.onModel, this);
    context.fileChanged.connect(() => this.changed.emit());
    panel.disposed.connect(() => this.dispose());
    void context.ready.then(() => this.showState(this.loaded()));
  }

  get path(): string {
    return this.context.path;
  }
  /** Whether the original file can be restored: a file on this computer has no trash. */
  get canConvert(): boolean {
    return this.drive.replace !== undefined;
  }

  text(): string {
    return this.drive.notebooks.text(this.path, this.context.model.toJSON());
  }

  parts(text: string): Part[] {
    return this.drive.notebooks.cells(text);
  }

  /** Converts the file to the current format; the original goes to the trash. */
  async convert(): Promise<void> {
    const { context, drive } = this;
    if (drive.replace !== undefined) {
      this.adopt(await drive.replace(context.path, this.text()));
      context.model.dirty = false;
      await this.load();
    }
  }

  protected get isReady(): boolean {
    return this.context.isReady;
  }
  protected get isDirty(): boolean {
    return this.context.model.dirty;
  }
  protected set isDirty(value: boolean) {
    this.context.model.dirty = value;
  }
  protected get version(): string | undefined {
    return this.context.contentsModel?.hash;
  }

  protected override loaded(): SaveState {
    const version = this.isReadOnly ? null : this.drive.notebooks.oldFormat(this.path);
    return version === null ? super.loaded() : { kind: 'old-format', version };
  }

  protected override onModel(): void {
    for (const id of this.running()) this.ran.add(id);
    super.onModel();
  }

  protected content(): Partial<Contents.IModel> {
    this.runningInSave = this.running();
    return { type: 'notebook', format: 'json', content: this.context.model.toJSON() };
  }

  /**
   * Pages that show one running cell all save its outputs, each as far as they have arrived: this is not a conflict. The last page
   * to see the cell end saves all of them.
   */
  protected isSame({ content }: Contents.IModel): boolean {
    const mine = this.context.model.toJSON() as INotebookContent;
    const ran = new Set([...this.ran, ...this.running()]);
    if (ran.size === 0) return this.drive.notebooks.isSame(this.path, mine);
    const { cells, metadata } = content as INotebookContent;
    const theirs = new Map(cells.map(cell => [cell.id, cell]));
    return this.drive.notebooks.isSame(this.path, {
      ...mine,
      metadata: { ...mine.metadata, widgets: metadata['widgets'] },
      cells: mine.cells.map(cell => {
        const other = theirs.get(cell.id);
        if (!ran.has(cell.id as string) || other?.cell_type !== 'code') return cell;
        return { ...cell, outputs: other['outputs'], execution_count: other['execution_count'] };
      })
    });
  }

  protected show({ content }: Contents.IModel): void {
    this.drive.notebooks.showing(this.path);
    const { cells, sharedModel } = this.context.model;
    const file = content as INotebookContent;
    const ran = (this.ran = new Set(this.running()));
    const theirs = new Map(file.cells.map(cell => [cell.id, cell]));
    const replaced = [...cells].filter(
      ({ id, sharedModel: mine }) =>
        !ran.has(id) && mine.cell_type === 'code' && !hasOutputs(mine as ISharedCodeCell, theirs.get(id))
    );
    // Whoever wrote the file: trust belongs to the outputs that were there before.
    for (const cell of replaced) cell.trusted = false;
    takeCells(sharedModel, file, ran);
    for (const cell of replaced) cell.trusted = theirs.get(cell.id)?.metadata['trusted'] === true;
  }

  private running(): string[] {
    return this.panel.content.widgets
      .filter(widget => (widget as CodeCell).model.executionState === 'running')
      .map(({ model }) => model.id);
  }

  protected revert(): Promise<void> {
    return this.context.revert();
  }

  /** Same as the document's manual save. */
  protected override emitState(state: DocumentRegistry.SaveState): void {
    if (state === 'completed') this.ran = new Set(this.runningInSave);
    const { _saveState } = this.context as unknown as {
      readonly _saveState: Signal<unknown, DocumentRegistry.SaveState>;
    };
    _saveState.emit(state);
  }

  /** A manual save compares the document with this value, and reports a changed file. */
  protected adopt(model: Contents.IModel): void {
    (this.context as unknown as { _updateContentsModel(model: unknown): void })._updateContentsModel(model);
  }

  readonly context: Context<INotebookModel>;
  /** Cells that have run since the file had the content of this page. */
  private ran = new Set<string>();
  private runningInSave: readonly string[] = [];
}

/**
 * Updates the cells to match the file. Cells that only change keep their place on the page.
 *
 * @param running ids of cells whose outputs arrive live: the file has older outputs
 */
function takeCells(
  shared: ISharedNotebook,
  file: Pick<INotebookContent, 'cells' | 'metadata'>,
  running: ReadonlySet<string>
): void {
  shared.transact(() => {
    const own = Object.entries(shared.getMetadata()).filter(([key]) => OWN_METADATA.has(key));
    takeMetadata(shared, { ...file.metadata, ...Object.fromEntries(own) });
    const wanted = new Set(file.cells.map(({ id }) => id));
    for (let at = shared.cells.length - 1; at >= 0; at -= 1) {
      if (!wanted.has(shared.getCell(at).id)) shared.deleteCell(at);
    }
    file.cells.forEach((cell, at) => {
      const from = shared.cells.findIndex(({ id }) => id === cell.id);
      if (from < 0 || shared.getCell(from).cell_type !== cell.cell_type) {
        if (from >= 0) shared.deleteCell(from);
        shared.insertCell(at, cell);
        return;
      }
      if (from !== at) shared.moveCell(from, at);
      updateCell(shared, at, cell, running);
    });
  }, false);
}

function updateCell(shared: ISharedNotebook, at: number, cell: ICell, running: ReadonlySet<string>): void {
  const mine = shared.getCell(at);
  const source = textOf(cell.source);
  if (mine.getSource() !== source) mine.setSource(source);
  const isRunning = running.has(mine.id);
  takeMetadata(mine, {
    ...cell.metadata,
    ...(isRunning && mine.getMetadata('trusted') === true && { trusted: true })
  });
  if (cell.cell_type !== 'code') {
    const attachments = cell['attachments'] as IAttachments | undefined;
    const text = mine as ISharedMarkdownCell;
    if (JSON.stringify(text.getAttachments()) !== JSON.stringify(attachments))
      text.setAttachments(attachments);
    return;
  }
  if (isRunning) return;
  const code = mine as ISharedCodeCell;
  if (!hasOutputs(code, cell)) code.setOutputs(outputsOf(cell));
  const count = cell['execution_count'] as number | null;
  if (code.execution_count !== count) code.execution_count = count;
}

/** Stated by the page itself: the kernel that it uses, and the state of its widgets. */
const OWN_METADATA = new Set(['kernelspec', 'language_info', 'widgets']);

/** Keys that only one side states are removed first, because the model states some keys twice. */
function takeMetadata(mine: IMetadata, wanted: Readonly<Record<string, unknown>>): void {
  for (const key of Object.keys(mine.getMetadata())) if (!(key in wanted)) mine.deleteMetadata(key);
  mine.setMetadata(wanted);
}

/** A notebook or a cell. */
interface IMetadata {
  getMetadata(): object;
  deleteMetadata(key: string): void;
  setMetadata(metadata: object): void;
}

const outputsOf = (cell: ICell | undefined): IOutput[] => (cell?.['outputs'] ?? []) as IOutput[];

const hasOutputs = (mine: ISharedCodeCell, cell: ICell | undefined): boolean =>
  JSON.stringify(mine.getOutputs()) === JSON.stringify(outputsOf(cell));

const textOf = (source: ICell['source']): string => (Array.isArray(source) ? source.join('') : source);
