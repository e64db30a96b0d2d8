/** Values as nbformat writes them to a file: texts as lists of lines, sorted keys, whole characters. */
import type { NotebookOutput } from '../outputs.js';

/** Line ends of Python's `str.splitlines`, which nbformat uses for writing. */
const LINE =
  /[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])|[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+$/g;

export function fileOutput(output: NotebookOutput): unknown {
  switch (output.output_type) {
    case 'stream':
      return { ...output, text: lines(textOf(output.text)) };
    case 'display_data':
    case 'execute_result':
      return { ...output, data: Object.fromEntries(Object.entries(output.data).map(dataLines)) };
    default:
      return output;
  }
}

const EMPTY_OUTPUTS: Readonly<Record<string, object>> = {
  stream: { name: 'stdout', text: '' },
  display_data: { data: {}, metadata: {} },
  execute_result: { data: {}, metadata: {}, execution_count: null },
  error: { ename: '', evalue: '', traceback: [] }
};

/**
 * The outputs of a file that can be shown, with the fields that every reader expects, and with lists of lines joined to
 * texts, as nbformat reads them: JupyterLab's model would put commas between the lines.
 */
export function shownOutputs(outputs: unknown): object[] {
  return (Array.isArray(outputs) ? outputs : []).flatMap((output: unknown) => {
    const given = objectOf(output);
    const fields = EMPTY_OUTPUTS[String(given['output_type'])];
    if (fields === undefined) return [];
    const missing = Object.entries(fields).filter(([key]) => (given[key] ?? null) === null);
    const whole: Record<string, unknown> = { ...given, ...Object.fromEntries(missing) };
    const { text, data } = whole;
    if (Array.isArray(text)) return [{ ...whole, text: text.join('') }];
    if (typeof data !== 'object' || data === null) return [whole];
    const texts = Object.entries(data).map(([mimeType, value]: [string, unknown]) => [
      mimeType,
      Array.isArray(value) && isText(value) && !/[/+]json$/.test(mimeType) ? value.join('') : value
    ]);
    return [{ ...whole, data: Object.fromEntries(texts) as unknown }];
  });
}

/** The types that nbformat splits; base64 and JSON stay whole. */
const SPLIT = /^(text\/.*|application\/javascript|image\/svg\+xml)$/;

function dataLines([type, value]: [string, unknown]): [string, unknown] {
  return [type, SPLIT.test(type) && isText(value) ? lines(textOf(value)) : value];
}

export function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

/** A text of a notebook, which may be a list of lines. */
export function isText(value: unknown): boolean {
  return typeof value === 'string' || (Array.isArray(value) && value.every(each => typeof each === 'string'));
}

export function textOf(value: unknown): string {
  return Array.isArray(value) ? value.join('') : typeof value === 'string' ? value : '';
}

export function lines(text: string): string[] {
  return text.match(LINE) ?? [];
}

/** The value with the keys of all objects sorted, and without lone surrogates, which UTF-8 cannot represent. */
export function sorted(value: unknown): unknown {
  return wellFormedValues(value, (a, b) => (a < b ? -1 : 1));
}

/** The value without lone surrogates, with the keys of objects in their own order or in this one. */
export function wellFormedValues(value: unknown, order?: (a: string, b: string) => number): unknown {
  if (typeof value === 'string') return wellFormed(value);
  if (Array.isArray(value)) return value.map(each => wellFormedValues(each, order));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value);
  if (order !== undefined) entries.sort(([a], [b]) => order(a, b));
  return Object.fromEntries(entries.map(([key, each]) => [wellFormed(key), wellFormedValues(each, order)]));
}

/** The text with U+FFFD for each lone surrogate. */
export function wellFormed(text: string): string {
  // Most texts have no surrogates at all, and this check is much faster.
  return /[\ud800-\udfff]/.test(text) ? text.replace(/\p{Surrogate}/gu, '\ufffd') : text;
}
