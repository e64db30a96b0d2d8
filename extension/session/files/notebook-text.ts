/** A notebook as the text of its file, the same for all places where files are. */
import type { Contents } from '@jupyterlab/services';
import { knownOutputs } from './known-outputs.js';

/** There are none; a document wants one to go back to, or it makes one at each opening. */
export const CHECKPOINT: Contents.ICheckpointModel = { id: 'none', last_modified: new Date(0).toISOString() };

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
    throw new Error(`${path} is not a notebook: its content is not JSON.`, { cause });
  }
}
