/** The file that a cell has not found: on a remote this is often a file on this computer. No DOM. */
import type { IOutput } from '@jupyterlab/nbformat';

/** Python's own text of the error, even when a library has wrapped it. */
const MISSING = /No such file or directory: '([^']{1,300})'/;

/** Null where no output reports it. An absolute path is in none of this computer's folders. */
export function missingFile(outputs: readonly IOutput[]): string | null {
  for (const output of outputs) {
    const { output_type: type, ename, evalue } = output;
    if (type === 'error' && ename === 'FileNotFoundError' && typeof evalue === 'string') {
      const path = MISSING.exec(evalue)?.[1];
      return path === undefined || /^[/~]/.test(path) ? null : path;
    }
  }
  return null;
}
