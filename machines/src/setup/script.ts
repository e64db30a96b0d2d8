/** Scripts that run on hosts, in sh and Python: files of this package, in `host/`. */
import { readFileSync } from 'node:fs';

const FOLDER = new URL('../../host/', import.meta.url);

/** Several are concatenated. */
export function script(...names: readonly string[]): string {
  return names.map(name => readFileSync(new URL(name, FOLDER), 'utf8')).join('');
}
