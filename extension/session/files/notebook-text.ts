/** The notebooks of a drive, each with the text that was read: a save changes that text where the page has changed the notebook. */
import { newText, type NotebookContent, NotebookFormatError, NotebookText, sorted } from '@tpulab/protocol';
import type { Part } from './saving.js';
import { trans } from '../text.js';
import { seenOutputs } from './seen-outputs.js';

export class NotebookTexts {
  /** An empty file is an empty notebook. */
  read(path: string, text: string): NotebookContent {
    try {
      const notebook = new NotebookText(text.trim() === '' ? EMPTY : text, { upgrades: true });
      const content = notebook.content();
      seenOutputs.mark(content);
      this._texts.set(keyOf(path), notebook);
      return content;
    } catch (cause) {
      const why = cause instanceof NotebookFormatError ? cause.message : String(cause);
      throw new Error(trans.__('%1 cannot be opened: %2. The file was not changed.', path, why), { cause });
    }
  }

  /** What the file would be with this content. Changes `content`: it is without the marks of trust then. */
  text(path: string, content: unknown): string {
    seenOutputs.learn(content);
    return this.notebook(path)?.withContent(content as NotebookContent) ?? newText(content);
  }

  /** This is in the file from now on. */
  written(path: string, text: string): void {
    this._texts.set(keyOf(path), text);
  }

  moved(path: string, to: string): void {
    const text = this._texts.get(keyOf(path));
    if (text !== undefined) this._texts.set(keyOf(to), text);
  }

  /** Whether the file, as it was read last, says the same as this content. */
  isSame(path: string, content: unknown): boolean {
    return this.text(path, content) === this.notebook(path)?.original;
  }

  /** To compare notebooks by. */
  cells(text: string): Part[] {
    const { cells } = new NotebookText(text.trim() === '' ? EMPTY : text, { upgrades: true }).content();
    return cells.map(cell => ({
      text: [cell['source']].flat().join(''),
      whole: JSON.stringify(sorted({ ...cell, id: '' }))
    }));
  }

  /** The old format in which the file of an opened notebook still is; null: it is in the one of today. */
  oldFormat(path: string): number | null {
    return this.notebook(path)?.oldFormat ?? null;
  }

  private notebook(path: string): NotebookText | null {
    const text = this._texts.get(keyOf(path));
    return typeof text === 'string' ? new NotebookText(text) : (text ?? null);
  }

  private readonly _texts = new Map<string, NotebookText | string>();
}

/** A document names a file of the browser's with its drive, and the drive without. */
const keyOf = (path: string): string => path.replace(/^browser:/, '');

const EMPTY = newText({ cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 });
