/** Tells whether the code of a cell is still what was run. */
import { createHash } from 'node:crypto';

/** What `codeHash` of an execution is. */
export function codeHash(code: string): string {
  return createHash('sha256').update(code, 'utf8').digest('hex');
}
