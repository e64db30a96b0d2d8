/**
 * The text of a notebook file, for all readers and writers: session page, `tpulab execute`, `tpulab outputs`. Parts that a
 * change does not affect stay unchanged byte for byte; cells are identified by their position, whatever their ids are.
 */
import type { NotebookOutput } from '../outputs.js';
import { JsonWriter, withValue } from './json-edit.js';
import { edited, items, type JsonNode, member, parseJson } from './json-tree.js';
import { fileOutput, isText, lines, listOf, objectOf, shownOutputs, textOf } from './nbformat-values.js';
import { upgraded } from './upgrade.js';

export interface CodeCell {
  /** Position among all cells, from 0. */
  readonly index: number;
  /** Unique in the notebook, even if the file lacks the id, or contains it twice. */
  readonly id: string;
  readonly source: string;
  readonly tags: readonly string[];
}

export interface CellOutputs {
  readonly index: number;
  readonly outputs: readonly NotebookOutput[];
  readonly executionCount: number | null;
}

/** A notebook in JupyterLab's model. */
export interface NotebookContent {
  cells: (Record<string, unknown> & { id: string })[];
  metadata: Record<string, unknown>;
  nbformat: number;
  nbformat_minor: number;
}

/** A file that is not a notebook, or has an unsupported format. */
export class NotebookFormatError extends Error {}

const NBFORMAT = 4;
/** The first minor version whose cells have ids. */
const WITH_IDS = 5;
const CELL_KEYS = ['attachments', 'cell_type', 'execution_count', 'id', 'metadata', 'outputs', 'source'];
const CELL_TYPES = ['code', 'markdown', 'raw'];

export class NotebookText {
  readonly #text: string;
  readonly #root: JsonNode;
  readonly #cells: readonly JsonNode[];
  readonly #ids: readonly string[];
  readonly #minor: number | undefined;
  readonly #writer: JsonWriter;
  readonly codeCells: readonly CodeCell[];
  /** The format of an old file, which is read as if it were converted; null for a current file. */
  readonly oldFormat: number | null;

  /** @param upgrades whether a notebook of nbformat 3 is accepted; otherwise it is refused */
  constructor(
    readonly original: string,
    { upgrades = false } = {}
  ) {
    let json = parsed(original);
    const version = readVersion(json.text, json.root);
    this.oldFormat = version < NBFORMAT ? version : null;
    if (version < NBFORMAT) {
      if (!upgrades) throw new NotebookFormatError(`it is of nbformat ${version}; ${CONVERT}`);
      const old = objectOf(JSON.parse(json.text));
      if (!Array.isArray(old['worksheets'])) throw new NotebookFormatError('it has no list of worksheets');
      json = parseJson(newText(upgraded(old)));
    }
    this.#text = json.text;
    this.#root = json.root;
    const cells = member(json.root, 'cells')?.value;
    if (cells?.kind !== 'array') throw new NotebookFormatError('it has no list of cells');
    this.#cells = items(cells);
    this.#writer = new JsonWriter(json.text, json.root);
    const minor = this.#value(member(json.root, 'nbformat_minor')?.value);
    this.#minor = typeof minor === 'number' ? minor : undefined;
    const shown = this.#cells.map((cell, index) => this.#shownCell(cell, index));
    this.#ids = uniqueIds(shown);
    this.codeCells = shown.flatMap((cell, index) =>
      cell.type === 'code' ? { index, id: this.#ids[index] ?? '', source: cell.source, tags: cell.tags } : []
    );
  }

  /** The whole notebook as nbformat 4.5, with an id for each cell. The file itself does not change. */
  content(): NotebookContent {
    const notebook = objectOf(JSON.parse(this.#text));
    const { orig_nbformat: _, ...metadata } = objectOf(notebook['metadata']);
    const cells = listOf(notebook['cells']).map((each, index) => {
      const cell = objectOf(each);
      const code = {
        execution_count: cell['execution_count'] ?? null,
        outputs: shownOutputs(cell['outputs'])
      };
      return {
        ...cell,
        id: this.#ids[index] ?? '',
        metadata: shownMetadata(cell['metadata']),
        source: sourceOf(cell['source']),
        ...(cell['cell_type'] === 'code' ? code : {})
      };
    });
    return { cells, metadata, nbformat: NBFORMAT, nbformat_minor: WITH_IDS };
  }

  /** This includes files without a minor version: then the first version with ids is written. */
  get #hasIds(): boolean {
    return (this.#minor ?? WITH_IDS) >= WITH_IDS;
  }

  metadata(): Record<string, unknown> {
    return objectOf(this.#value(member(this.#root, 'metadata')?.value));
  }

  /** The text with these outputs in place of the old ones. Cells get the fields that every reader needs, and a unique id. */
  withOutputs(placed: readonly CellOutputs[]): string {
    const given = new Map(placed.map(each => [each.index, each]));
    const code = new Set(this.codeCells.map(({ index }) => index));
    const edits = this.#cells.flatMap((cell, index) => {
      const values = new Map<string, string | null>();
      const put = (key: string, value: unknown): unknown => values.set(key, this.#writer.written(value, 3));
      if (this.#hasIds && this.#value(member(cell, 'id')?.value) !== this.#ids[index])
        put('id', this.#ids[index]);
      const outputs = given.get(index);
      if (code.has(index)) {
        if (outputs) put('outputs', outputs.outputs.map(fileOutput));
        else if (member(cell, 'outputs')?.value.kind !== 'array') put('outputs', []);
        if (outputs) put('execution_count', outputs.executionCount);
        else if (member(cell, 'execution_count') === undefined) put('execution_count', null);
      }
      if (member(cell, 'metadata')?.value.kind !== 'object') put('metadata', {});
      if (!isText(this.#value(member(cell, 'source')?.value))) put('source', []);
      if (values.size === 0) return [];
      return { start: cell.start, end: cell.end, text: this.#writer.object(cell, values, 2) };
    });
    if (placed.length === 0) return this.original;
    let text = edited(this.#text, edits);
    if (this.#minor === undefined) text = withValue(text, ['nbformat_minor'], WITH_IDS);
    if (member(this.#root, 'metadata')?.value.kind !== 'object') text = withValue(text, ['metadata'], {});
    return this.#result(text);
  }

  /** The text of the file with this content, which was derived from the file's own content. */
  withContent(content: NotebookContent): string {
    const old = new Map(this.#ids.map((id, index) => [id, index]));
    const indices = content.cells.map(({ id }) => old.get(id));
    const texts = content.cells.map((cell, at) => this.#cellText(this.#cells[indices[at] ?? -1], cell));
    const cells = member(this.#root, 'cells')?.value;
    const isSameList = texts.length === this.#cells.length && indices.every((index, at) => index === at);
    const list =
      isSameList && cells !== undefined
        ? edited(
            this.#writer.source(cells),
            this.#cells.map(({ start, end }, at) => ({
              start: start - cells.start,
              end: end - cells.start,
              text: texts[at] ?? ''
            }))
          )
        : this.#writer.array(texts, 1);
    const values = new Map<string, string | null>([
      ['cells', list],
      ['metadata', this.#metadataText(content.metadata)]
    ]);
    if (this.#minor === undefined || !this.#hasIds) values.set('nbformat_minor', String(WITH_IDS));
    const text = this.#writer.object(this.#root, values, 0);
    return this.#result(edited(this.#text, [{ start: this.#root.start, end: this.#root.end, text }]));
  }

  /** If nothing has changed, repairs that were made for reading are no reason to write either. */
  #result(text: string): string {
    return text === this.#text && this.oldFormat === null ? this.original : text;
  }

  #metadataText(metadata: Readonly<Record<string, unknown>>): string {
    const node = member(this.#root, 'metadata')?.value;
    const before = this.metadata();
    const values = new Map<string, string | null>();
    for (const key of new Set([...Object.keys(before), ...Object.keys(metadata)])) {
      // The model lacks the first field, and adds the others without a name when the file has none.
      const value = key === 'orig_nbformat' ? before[key] : metadata[key];
      const isNothing = value === undefined || (before[key] === undefined && objectOf(value)['name'] === '');
      if (isNothing ? before[key] === undefined : isSame(before[key], value)) continue;
      values.set(key, isNothing ? null : this.#writer.written(value, 2));
    }
    return this.#writer.object(node, values, 1);
  }

  #cellText(node: JsonNode | undefined, cell: Readonly<Record<string, unknown>>): string {
    const before = objectOf(this.#value(node));
    const values = new Map<string, string | null>();
    for (const key of CELL_KEYS) {
      const [old, value] = [before[key], cell[key]];
      if (value === undefined ? old === undefined : isSameValue(key, old, value)) continue;
      values.set(key, value === undefined ? null : this.#writer.written(fileValue(key, value, old), 3));
    }
    return this.#writer.object(node, values, 2);
  }

  #shownCell(cell: JsonNode, index: number): ShownCell {
    const value = (key: string): unknown => this.#value(member(cell, key)?.value);
    const [type, id] = [value('cell_type'), value('id')];
    if (typeof type !== 'string') throw new NotebookFormatError(`cell ${index + 1} has no cell_type`);
    return {
      type,
      id: typeof id === 'string' && id !== '' ? id : null,
      source: sourceOf(value('source')),
      tags: listOf(objectOf(value('metadata'))['tags']).map(String)
    };
  }

  #value(node: JsonNode | undefined): unknown {
    return node === undefined ? undefined : JSON.parse(this.#text.slice(node.start, node.end));
  }
}

/** The text of a new notebook, as Jupyter writes one. */
export function newText(content: unknown): string {
  const empty = '{\n "cells": []\n}\n';
  const writer = new JsonWriter(empty, parseJson(empty).root);
  const { cells, ...others } = objectOf(content);
  const written = listOf(cells).map(cell =>
    Object.fromEntries(Object.entries(objectOf(cell)).map(([key, value]) => [key, fileValue(key, value)]))
  );
  return `${writer.written({ ...others, cells: written }, 0)}\n`;
}

interface ShownCell {
  readonly type: string;
  readonly id: string | null;
  readonly source: string;
  readonly tags: readonly string[];
}

const CONVERT =
  'open it in the session page and convert it there, or run "jupyter nbconvert --to notebook" on it, which writes nbformat 4';

function parsed(text: string): ReturnType<typeof parseJson> {
  try {
    return parseJson(text);
  } catch (cause) {
    const place = cause instanceof Error ? cause.message : '';
    throw new NotebookFormatError(
      `it is not JSON (${place}); repair that place, or restore an older version`,
      {
        cause
      }
    );
  }
}

function readVersion(text: string, root: JsonNode): number {
  const node = member(root, 'nbformat')?.value;
  if (node === undefined) throw new NotebookFormatError('it is no notebook: it has no nbformat');
  const version: unknown = JSON.parse(text.slice(node.start, node.end));
  if (version === NBFORMAT || version === 3) return version;
  const found = JSON.stringify(version);
  throw new NotebookFormatError(
    typeof version === 'number' && version < 3
      ? `it is of nbformat ${found}; run "jupyter nbconvert --to notebook" on it, which writes nbformat 4`
      : `it is of nbformat ${found}, and TPULab reads 3 and 4; save it as nbformat 4 with the program that wrote it`
  );
}

/** An id that is missing, or belongs to another cell, is derived from the code, so that it is the same at each reading. */
function uniqueIds(cells: readonly ShownCell[]): string[] {
  const taken = new Set(cells.map(({ id }) => id));
  const seen = new Set<string>();
  return cells.map(({ id, source }) => {
    if (id !== null && !seen.has(id)) {
      seen.add(id);
      return id;
    }
    const stem = fingerprint(source);
    let made = stem;
    for (let number = 2; taken.has(made); number++) made = `${stem}-${number}`;
    taken.add(made);
    return made;
  });
}

/** FNV-1a: short, and the same on every machine. */
function fingerprint(text: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193) >>> 0;
  return hash.toString(16).padStart(8, '0');
}

/** Editors count a line end as one character: in a text with the line ends of Windows, they would change the wrong place. */
const sourceOf = (value: unknown): string => textOf(value).replaceAll('\r\n', '\n');

/** @param old the value in the file, whose line ends stay */
function fileValue(key: string, value: unknown, old?: unknown): unknown {
  if (key === 'source' && typeof value === 'string')
    return lines(/^(?:[^\n]*\r\n)+[^\n]*$/.test(textOf(old)) ? value.replaceAll('\n', '\r\n') : value);
  return key === 'outputs' ? listOf(value).map(output => fileOutput(output as NotebookOutput)) : value;
}

function isSameValue(key: string, old: unknown, value: unknown): boolean {
  if (key === 'source') return old !== undefined && sourceOf(old) === value;
  if (key === 'metadata' && old !== undefined) return isSame(modelMetadata(old), modelMetadata(value));
  // Colab writes 0 for a cell that was not run, which JupyterLab's model does not know.
  if (key === 'execution_count' && old === 0) return value === null;
  // Outputs that cannot be shown stay in a cell that is not run again.
  if (key === 'outputs' && old !== undefined) return isSame(shownOutputs(old), value);
  // A type that JupyterLab does not know is shown as raw text.
  if (key === 'cell_type' && value === 'raw')
    return typeof old === 'string' && (old === 'raw' || !CELL_TYPES.includes(old));
  return isSame(old, value);
}

/** The metadata of a cell as JupyterLab's model has it: hidden outputs are stated twice, and trust is not what the file says. */
function modelMetadata(value: unknown): Record<string, unknown> {
  const { trusted: _, ...metadata } = shownMetadata(value);
  const jupyter = objectOf(metadata['jupyter']);
  const collapsed = metadata['collapsed'] ?? jupyter['outputs_hidden'];
  if (collapsed === undefined) return metadata;
  return { ...metadata, collapsed, jupyter: { ...jupyter, outputs_hidden: collapsed } };
}

/** JupyterLab's model fails on a `jupyter` that is no object. It stays in the file until the metadata are changed. */
function shownMetadata(value: unknown): Record<string, unknown> {
  const { jupyter, ...others } = objectOf(value);
  return objectOf(jupyter) === jupyter || jupyter === undefined ? objectOf(value) : others;
}

/** Whether both are equal; in either of them, texts may be lists of lines. */
function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one === 'string' || typeof other === 'string')
    return isText(one) && isText(other) && textOf(one) === textOf(other);
  if (Array.isArray(one) && Array.isArray(other))
    return (
      (one.length === other.length && one.every((each, at) => isSame(each, other[at]))) ||
      (isText(one) && isText(other) && one.length > 0 && one.join('') === other.join(''))
    );
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false;
  if (Array.isArray(one) || Array.isArray(other)) return false;
  const [a, b] = [one as Record<string, unknown>, other as Record<string, unknown>];
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every(key => key in b && isSame(a[key], b[key]));
}
