/**
 * Converts messages to outputs in nbformat's shape. Not every kernel is an ipykernel: output of another shape is adapted,
 * because one odd output must not make a notebook invalid.
 */
import { type NotebookOutput, withoutRefusedKeys } from '@tpulab/protocol';
import { asObject, type JsonObject } from '@tpulab/platform/json-text.js';

/** Null for a message that is not an output, or lacks a required field. */
export function outputOf(msgType: string, content: JsonObject): NotebookOutput | null {
  switch (msgType) {
    case 'stream':
      return typeof content['text'] === 'string'
        ? { output_type: 'stream', name: text(content['name'], 'stdout'), text: content['text'] }
        : null;
    case 'display_data':
      return {
        output_type: 'display_data',
        data: bundle(content['data']),
        metadata: withoutRefusedKeys(asObject(content['metadata']), false)
      };
    case 'execute_result':
      return {
        output_type: 'execute_result',
        data: bundle(content['data']),
        metadata: withoutRefusedKeys(asObject(content['metadata']), false),
        execution_count: integerOrNull(content['execution_count'])
      };
    case 'error':
      return {
        output_type: 'error',
        ename: text(content['ename'], 'Error'),
        evalue: text(content['evalue'], ''),
        traceback: Array.isArray(content['traceback'])
          ? content['traceback'].map(line => text(line, String(line)))
          : []
      };
    default:
      return null;
  }
}

export function displayIdOf(content: JsonObject): string | null {
  const id = asObject(content['transient'])['display_id'];
  return typeof id === 'string' && id !== '' ? id : null;
}

/** The pages of `?name`, which JupyterLab shows below the cell. */
export function pageOf(reply: JsonObject): NotebookOutput | null {
  const payload: unknown = reply['status'] === 'ok' ? reply['payload'] : null;
  const pages = (Array.isArray(payload) ? payload : []).map(asObject);
  const page = pages.find(({ source }) => source === 'page');
  return page === undefined
    ? null
    : { output_type: 'display_data', data: bundle(page['data']), metadata: {} };
}

/** The outputs that the kernel itself has stored in the state of an Output widget. */
export function outputsInState(value: unknown): NotebookOutput[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap(each => {
    const content = asObject(each);
    return outputOf(text(content['output_type'], ''), { ...content, text: joined(content['text']) }) ?? [];
  });
}

export function integerOrNull(value: unknown): number | null {
  return Number.isSafeInteger(value) ? (value as number) : null;
}

const JSON_TYPE = /^application\/(.*\+)?json$/;

/** Texts may be lists of lines; only JSON types may have any value. */
function bundle(value: unknown): JsonObject {
  const entries = Object.entries(withoutRefusedKeys(asObject(value), true)).map(
    ([type, data]): [string, unknown] => {
      if (JSON_TYPE.test(type)) return [type, data];
      const whole = joined(data);
      return [type, typeof whole === 'string' ? whole : JSON.stringify(whole)];
    }
  );
  return Object.fromEntries(entries);
}

function joined(value: unknown): unknown {
  return Array.isArray(value) && value.every(line => typeof line === 'string') ? value.join('') : value;
}

function text(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise;
}
