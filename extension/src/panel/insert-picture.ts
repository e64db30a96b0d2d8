/** Inserts a picture into the notebook as the output of a new cell, so that every reader of the notebook sees it. */
import type { OpenNotebooks } from './go-to-cell.js';

export interface InsertedPicture {
  /** A self-contained SVG. */
  readonly svg: string;
  readonly title: string;
  /** Text shown where no picture can be shown. */
  readonly headline: string;
}

/** Inserts below the current cell. False when there is no notebook. */
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
  // The page has created it, so it is as trusted as an output of the notebook's cells.
  model.cells.get(index).trusted = true;
  notebook.activeCellIndex = index;
  void notebook.scrollToItem(index, 'smart');
  return true;
}
