/** A notebook as the text of its file, the same for all places where files are. */
import { trans } from '../text.js';
import { knownOutputs } from './known-outputs.js';

/** As Jupyter writes notebooks, so that a difference to what another program wrote is one of content. */
export function notebookText(content: unknown): string {
  knownOutputs.learn(content);
  return `${JSON.stringify(content, null, 1)}\n`;
}

/** An empty file is an empty notebook. */
export function notebookFrom(path: string, text: string): unknown {
  if (text.trim() === '') {
    return { cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 };
  }
  try {
    const notebook: unknown = JSON.parse(text);
    knownOutputs.mark(notebook);
    return notebook;
  } catch (cause) {
    throw new Error(trans.__('%1 is not a notebook: its content is not JSON.', path), { cause });
  }
}
