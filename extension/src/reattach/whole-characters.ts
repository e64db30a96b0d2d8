/**
 * JupyterLab applies backspaces and carriage returns to halves of characters, and replaces the end of a line from the first different
 * half: half of an emoji in a progress line remains, and no server can save a notebook with half a character. Here lines
 * with such characters are changed by whole characters, and saved text is well formed, wherever the halves come from. Text that erases a
 * line or moves the cursor up, which JupyterLab ignores, changes the lines it addresses. Keys of an output that JupyterLab cannot
 * store are left out.
 */
import { type ISharedText, YBaseCell } from '@jupyter/ydoc';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { isStream, type IOutput } from '@jupyterlab/nbformat';
import { OutputAreaModel } from '@jupyterlab/outputarea';
import type { IOutputModel } from '@jupyterlab/rendermime';
import { LINES_ABOVE, StreamText, wellFormedValues, withoutRefusedKeys } from '@tpulab/protocol';

const HALF = /[\ud800-\udfff]/;
const CONTROL = /[\b\r\n]/;
const SEQUENCE = /\x1b\[\d*[AK]/;

/** Private members of an output area's model. */
interface IOutputArea {
  readonly list: { readonly length: number; get(index: number): IOutputModel };
  readonly length: number;
  readonly _lastStreamName: string;
  _streamIndex: number;
  _add(value: IOutput): number;
}

/** Applies to all outputs of this page. */
export function keepCharactersWhole(prototype = OutputAreaModel.prototype): void {
  const area = prototype as unknown as IOutputArea;
  const add = area._add;
  area._add = function (this: IOutputArea, given: IOutput): number {
    const value = { ...given };
    for (const part of ['data', 'metadata'] as const) {
      const bundle = value[part];
      if (typeof bundle === 'object' && bundle !== null)
        value[part] = withoutRefusedKeys(bundle, part === 'data');
    }
    const added = isStream(value) ? [value.text].flat().join('') : '';
    const last = this.length > 0 ? this.list.get(this.length - 1) : null;
    const shown = isStream(value) && value['name'] === this._lastStreamName ? last?.streamText : undefined;
    const before = shown?.text ?? '';
    const lineStart = before.lastIndexOf('\n') + 1;
    const line = before.slice(lineStart);
    const cursor = shown === undefined ? 0 : this._streamIndex;
    const isMoved = cursor < lineStart || SEQUENCE.test(added);
    if (!isMoved && !HALF.test(line) && !(HALF.test(added) && (line !== '' || CONTROL.test(added)))) {
      return add.call(this, value);
    }
    let start = lineStart;
    for (let lines = 0; isMoved && start > 0 && (lines < LINES_ABOVE || start > cursor); lines++) {
      start = before.lastIndexOf('\n', start - 2) + 1;
    }
    const text = new StreamText(Infinity);
    text.write(before.slice(start));
    if (shown !== undefined) {
      const up = before.slice(cursor).split('\n').length - 1;
      const row = before.slice(start, cursor);
      text.write(`${up === 0 ? '' : `\x1b[${up}A`}\r${row.slice(row.lastIndexOf('\n') + 1)}`);
    }
    text.write(added);
    const after = before.slice(0, start) + text.toString(() => '');
    if (shown === undefined) {
      add.call(this, { ...value, text: after });
    } else {
      const same = start + sameStart(before.slice(start), after.slice(start));
      shown.remove(same, before.length);
      shown.insert(same, after.slice(same));
    }
    this._streamIndex = start + text.cursor(() => '');
    return this.length;
  };
}

/**
 * An editor counts a line end as one character. JupyterLab's model kept those of Windows, of two characters, and so what was typed
 * below them was inserted too early in the text that is run and saved.
 */
export function keepLineEndsWhole(): void {
  const { prototype }: { readonly prototype: ISharedText } = YBaseCell;
  const set = prototype.setSource;
  prototype.setSource = function (this: unknown, value: string): void {
    set.call(this, value.replaceAll('\r\n', '\n'));
  };
}

/** Makes saved text well formed, even if it was loaded, typed or received with half a character. */
export function saveWellFormed({ context: { model } }: Pick<NotebookPanel, 'context'>): void {
  const toJSON = model.toJSON.bind(model);
  model.toJSON = () => wellFormedValues(toJSON()) as ReturnType<typeof toJSON>;
}

/** Length in units of the common start of two texts, up to the end of a character. */
function sameStart(one: string, other: string): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) {
    at += 1;
  }
  const before = one.charCodeAt(at - 1);
  return before >= 0xd800 && before <= 0xdbff ? at - 1 : at;
}
