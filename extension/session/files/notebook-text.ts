/** The notebooks of a drive, each with the text that was read: a save changes that text only where the page has changed the notebook. */
import { newText, type NotebookContent, NotebookFormatError, NotebookText, sorted } from '@tpulab/protocol';
import { trans } from '../text.js';
import { seenOutputs } from './seen-outputs.js';

/** The unit in which two versions are compared: a cell, or a whole text. */
export interface Part {
  readonly text: string;
  /** With outputs and everything else besides its text. */
  readonly whole: string;
}

export class NotebookTexts {
  /** An empty file is an empty notebook. */
  read(path: string, text: string): NotebookContent {
    try {
      const notebook = new NotebookText(text.trim() === '' ? EMPTY : text, { upgrades: true });
      const content = notebook.content();
      seenOutputs.mark(content);
      const isFirst = !this._texts.has(keyOf(path));
      this._texts.set(keyOf(path), notebook);
      if (isFirst) this.showing(path);
      else if (this._own.get(keyOf(path)) !== notebook.original) this._own.delete(keyOf(path));
      return content;
    } catch (cause) {
      const why = cause instanceof NotebookFormatError ? cause.message : String(cause);
      throw new Error(trans.__('%1 cannot be opened: %2. The file was not changed.', path, why), { cause });
    }
  }

  /** The file's text with this content. Changes `content`: removes the trust marks. */
  text(path: string, content: unknown): string {
    seenOutputs.learn(content);
    return this.notebook(path)?.withContent(content as NotebookContent) ?? newText(content);
  }

  /** A save sends this text; the answer may be lost on its way. */
  sending(path: string, text: string): void {
    this._own.set(keyOf(path), text);
  }

  /** The page shows the file as last read. */
  showing(path: string): void {
    this._own.set(keyOf(path), this.notebook(path)?.original ?? '');
  }

  /** The file has this text from now on. */
  setStored(path: string, text: string): void {
    this._texts.set(keyOf(path), text);
  }

  moved(path: string, to: string): void {
    const text = this._texts.get(keyOf(path));
    if (text !== undefined) this._texts.set(keyOf(to), text);
  }

  /**
   * Whether the file, as last read, has the same content, or what this page last showed or sent: another program may have written
   * the same bytes again. Makes no outputs known: some of `content` may be the file's.
   */
  isSame(path: string, content: unknown): boolean {
    const notebook = this.notebook(path);
    if (notebook === null) return false;
    const { original } = notebook;
    return (
      original === this._own.get(keyOf(path)) || original === notebook.withContent(content as NotebookContent)
    );
  }

  /** Parts by which notebooks are compared. */
  cells(text: string): Part[] {
    const { cells } = new NotebookText(text.trim() === '' ? EMPTY : text, { upgrades: true }).content();
    return cells.map(cell => ({
      text: [cell['source']].flat().join(''),
      whole: JSON.stringify(sorted({ ...cell, id: '' }))
    }));
  }

  /** The old nbformat version of an opened notebook's file; null: the file has the current format. */
  oldFormat(path: string): number | null {
    return this.notebook(path)?.oldFormat ?? null;
  }

  private notebook(path: string): NotebookText | null {
    const text = this._texts.get(keyOf(path));
    return typeof text === 'string' ? new NotebookText(text) : (text ?? null);
  }

  private readonly _texts = new Map<string, NotebookText | string>();
  /** The text of each file that the page last showed or sent, until the file has another one. */
  private readonly _own = new Map<string, string>();
}

/** A document names a browser file with its drive prefix, the drive names it without. */
const keyOf = (path: string): string => path.replace(/^browser:/, '');

const EMPTY = newText({ cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 });
