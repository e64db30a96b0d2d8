/** Functions for files and folders that may not exist. */
import { readFile } from 'node:fs/promises';

/** For `catch`: the value if a file or folder does not exist. Every other error is rethrown. */
export function ifMissing<T>(value: T): (error: unknown) => T {
  return error => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return value;
    throw error;
  };
}

/** The text of a file; null when it does not exist. */
export function readIfThere(file: string): Promise<string | null> {
  return readFile(file, 'utf8').catch(ifMissing(null));
}
