/** Updates the cells of an open notebook to match its file, in place. */
import type { ISharedCodeCell, ISharedNotebook } from '@jupyter/ydoc';
import type { ICell, INotebookContent, IOutput } from '@jupyterlab/nbformat';

/**
 * Updates the cells to match the file. Cells that only change keep their place on the page.
 *
 * @param running ids of cells whose outputs arrive live: the file has older outputs
 */
export function takeCells(
  shared: ISharedNotebook,
  file: Pick<INotebookContent, 'cells'>,
  running: ReadonlySet<string>
): void {
  shared.transact(() => {
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
      takeCell(shared, at, cell, running);
    });
  }, false);
}

function takeCell(shared: ISharedNotebook, at: number, cell: ICell, running: ReadonlySet<string>): void {
  const mine = shared.getCell(at);
  const source = textOf(cell.source);
  if (mine.getSource() !== source) mine.setSource(source);
  if (cell.cell_type !== 'code' || running.has(mine.id)) return;
  const code = mine as ISharedCodeCell;
  const outputs = (cell['outputs'] ?? []) as IOutput[];
  if (JSON.stringify(code.getOutputs()) !== JSON.stringify(outputs)) code.setOutputs(outputs);
  const count = cell['execution_count'] as number | null;
  if (code.execution_count !== count) code.execution_count = count;
}

const textOf = (source: ICell['source']): string => (Array.isArray(source) ? source.join('') : source);
