/** Puts a picture into the notebook as the output of a new cell, so that it is seen wherever the notebook is read. */
import type { OpenNotebooks } from './go-to-cell.js';

export interface InsertedPicture {
  /** An SVG that stands alone. */
  readonly svg: string;
  readonly title: string;
  /** What is said where no picture can be shown. */
  readonly headline: string;
}

/** Below the current cell. False when there is no notebook to put it into. */
export function insertPicture(notebooks: OpenNotebooks, { svg, title, headline }: InsertedPicture): boolean {
  const notebook = notebooks.currentWidget?.content;
  const model = notebook?.model;
  if (!notebook || !model) {
    return false;
  }
  const index = notebook.activeCellIndex + 1;
  model.sharedModel.insertCell(index, {
    cell_type: 'code',
    source: `# ${title}`,
    metadata: {},
    outputs: [
      {
        output_type: 'display_data',
        data: { 'image/svg+xml': svg, 'text/plain': `${title}: ${headline}` },
        metadata: {}
      }
    ]
  });
  // The page has made it, so it is as trusted as what a cell of the notebook shows.
  model.cells.get(index).trusted = true;
  notebook.activeCellIndex = index;
  void notebook.scrollToItem(index, 'smart');
  return true;
}
