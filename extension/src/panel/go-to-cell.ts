/** Shows the line of a notebook that caused a compilation. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { CodeLocation } from '@tpulab/protocol';

/** The notebooks of a page: JupyterLab's tracker, or a page's only one. */
export type OpenNotebooks = Pick<INotebookTracker, 'currentWidget' | 'find'>;

/** The open notebook that contains the cell; null when none does. A cell id is unique in practice. */
export function findCell(
  tracker: OpenNotebooks,
  cellId: string | null
): { panel: NotebookPanel; index: number } | null {
  if (cellId === null) {
    return null;
  }
  const panel = tracker.find(candidate => indexOf(candidate, cellId) >= 0);
  return panel ? { panel, index: indexOf(panel, cellId) } : null;
}

/** False when no open notebook contains the cell. */
export async function goToCell(
  tracker: OpenNotebooks,
  activate: (id: string) => void,
  { cellId, line }: Pick<CodeLocation, 'cellId' | 'line'>
): Promise<boolean> {
  const found = findCell(tracker, cellId);
  if (!found) {
    return false;
  }
  const { panel, index } = found;
  activate(panel.id);
  await panel.revealed;
  const notebook = panel.content;
  notebook.activeCellIndex = index;
  notebook.deselectAll();
  await notebook.scrollToItem(index, 'smart');
  const cell = notebook.widgets[index];
  await cell?.ready;
  if (line !== null && cell?.editor) {
    // The cell may have been edited since then: the nearest existing line is shown.
    const last = cell.editor.lineCount - 1;
    notebook.mode = 'edit';
    cell.editor.setCursorPosition({ line: Math.min(line - 1, last), column: 0 });
    cell.editor.focus();
  }
  return true;
}

function indexOf(panel: NotebookPanel, cellId: string): number {
  return panel.content.widgets.findIndex(cell => cell.model.id === cellId);
}
