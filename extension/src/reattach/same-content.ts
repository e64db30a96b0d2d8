/** Whether two parts of a notebook have the same content, in any notation of a file or a message. */
import { JSONExt, type ReadonlyPartialJSONValue } from '@lumino/coreutils';

/** Texts may be lists of lines, keys may have another order, and `transient` is in no file. */
export function isSameContent(a: unknown, b: unknown): boolean {
  return JSONExt.deepEqual(plain(a) as ReadonlyPartialJSONValue, plain(b) as ReadonlyPartialJSONValue);
}

function plain(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.length > 0 && value.every(item => typeof item === 'string')
      ? value.join('')
      : value.map(plain);
  }
  return typeof value === 'object' && value !== null
    ? Object.fromEntries(
        Object.entries(value).flatMap(([key, item]) => (key === 'transient' ? [] : [[key, plain(item)]]))
      )
    : value;
}
