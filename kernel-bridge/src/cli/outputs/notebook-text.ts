/** The text of a notebook file: its code cells, and new outputs for some of them, all else byte for byte as it was. */
import type { NotebookOutput } from '@tpulab/protocol';
import { items, type JsonNode, member, parsePositions } from './json-positions.js';
import { fileOutput } from './nbformat-output.js';

export interface CodeCell {
  /** Position among all cells, from 0. */
  readonly index: number;
  /** Null in notebooks older than nbformat 4.5. */
  readonly id: string | null;
  readonly source: string;
}

export interface CellOutputs {
  readonly index: number;
  readonly outputs: readonly NotebookOutput[];
  readonly executionCount: number | null;
}

/** A file that is no notebook, or one of a format that is not written. */
export class NotebookFormatError extends Error {}

export class NotebookText {
  readonly #text: string;
  readonly #cells: readonly JsonNode[];
  readonly codeCells: readonly CodeCell[];

  constructor(text: string) {
    this.#text = text;
    const start = text.startsWith('\ufeff') ? 1 : 0;
    let root: JsonNode;
    try {
      root = parsePositions(start === 1 ? ` ${text.slice(1)}` : text);
    } catch (cause) {
      throw new NotebookFormatError(`it is not JSON (${cause instanceof Error ? cause.message : ''})`, {
        cause
      });
    }
    const version = this.#value(member(root, 'nbformat')?.value);
    if (version !== 4) {
      throw new NotebookFormatError(
        version === undefined
          ? 'it has no nbformat'
          : `it is of nbformat ${JSON.stringify(version)}; save it in JupyterLab first to convert it to nbformat 4`
      );
    }
    this.#cells = items(member(root, 'cells')?.value);
    this.codeCells = this.#cells.flatMap((cell, index) => this.#codeCell(cell, index) ?? []);
  }

  /** The text with these outputs in place of the old ones. */
  withOutputs(placed: readonly CellOutputs[]): string {
    const edits = placed.flatMap(({ index, outputs, executionCount }) => {
      const cell = this.#cells[index];
      const [old, count] = [member(cell, 'outputs'), member(cell, 'execution_count')];
      if (old === undefined || count === undefined) return [];
      return [
        { ...old.value, text: this.#write(outputs.map(fileOutput), old.keyStart) },
        { ...count.value, text: JSON.stringify(executionCount) }
      ];
    });
    let result = '';
    let at = 0;
    for (const { start, end, text } of edits.sort((a, b) => a.start - b.start)) {
      result += this.#text.slice(at, start) + text;
      at = end;
    }
    return result + this.#text.slice(at);
  }

  #codeCell(cell: JsonNode, index: number): CodeCell | null {
    if (this.#value(member(cell, 'cell_type')?.value) !== 'code') return null;
    if (member(cell, 'outputs')?.value.kind !== 'array' || member(cell, 'execution_count') === undefined) {
      throw new NotebookFormatError(`cell ${index + 1} is a code cell without outputs or execution_count`);
    }
    const id = this.#value(member(cell, 'id')?.value);
    const source = this.#value(member(cell, 'source')?.value);
    return {
      index,
      id: typeof id === 'string' ? id : null,
      source: Array.isArray(source) ? source.join('') : typeof source === 'string' ? source : ''
    };
  }

  #value(node: JsonNode | undefined): unknown {
    return node === undefined ? undefined : JSON.parse(this.#text.slice(node.start, node.end));
  }

  /** With the indentation of the file, as found before the key; on one line in a file that is on one line. */
  #write(value: unknown, keyStart: number): string {
    const lineStart = this.#text.lastIndexOf('\n', keyStart - 1) + 1;
    const before = this.#text.slice(lineStart, keyStart);
    if (lineStart === 0 || before.trim() !== '') return JSON.stringify(value);
    // A key of a cell lies three levels deep: notebook, cells, cell.
    const unit = before.slice(0, Math.max(Math.round(before.length / 3), 1));
    const newline = this.#text[lineStart - 2] === '\r' ? '\r\n' : '\n';
    return JSON.stringify(value, null, unit).split('\n').join(`${newline}${before}`);
  }
}
