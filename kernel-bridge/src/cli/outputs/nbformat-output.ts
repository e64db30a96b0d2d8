/** Outputs as nbformat writes them into a file: texts as lists of lines, keys in the order of their names. */
import type { NotebookOutput } from '@tpulab/protocol';

/** What Python's `str.splitlines` takes for the end of a line; nbformat writes with it. */
const LINE =
  /[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])|[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+$/g;

export function fileOutput(output: NotebookOutput): unknown {
  switch (output.output_type) {
    case 'stream':
      return sorted({ ...output, text: lines(output.text) });
    case 'error':
      return sorted(output);
    case 'display_data':
    case 'execute_result':
      return sorted({ ...output, data: Object.fromEntries(Object.entries(output.data).map(dataLines)) });
  }
}

/** What nbformat splits; base64 and JSON stay whole. */
const SPLIT = /^(text\/.*|application\/javascript|image\/svg\+xml)$/;

function dataLines([type, value]: [string, unknown]): [string, unknown] {
  return [type, typeof value === 'string' && SPLIT.test(type) ? lines(value) : value];
}

export function lines(text: string): string[] {
  return text.match(LINE) ?? [];
}

/** With the keys of all objects in the order of their names. */
export function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, each]) => [key, sorted(each)]));
}
