/** Functions for files and folders that may not exist. */
import { mkdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';

/** For `catch`: the value if a file or folder does not exist, or its folder is a file. Every other error is rethrown. */
export function ifMissing<T>(value: T): (error: unknown) => T {
  return error => {
    if (/^(ENOENT|ENOTDIR)$/.test((error as NodeJS.ErrnoException).code ?? '')) return value;
    throw error;
  };
}

/**
 * Creates a folder and those above it, with these rights. Node's recursive `mkdir` never returns where the system answers ENOENT below an
 * existing folder: in /proc, and in an automounter's /home without this user.
 */
export async function makeFolder(folder: string, mode = 0o777): Promise<void> {
  const parent = path.dirname(folder);
  if (parent !== folder && !(await isFolder(parent))) await makeFolder(parent, mode);
  try {
    await mkdir(folder, { mode });
  } catch (error) {
    if (!(await isFolder(folder))) throw error;
  }
}

async function isFolder(file: string): Promise<boolean> {
  return (await stat(file).catch(() => null))?.isDirectory() === true;
}

/** The text of a file; null when it does not exist. */
export function readIfThere(file: string): Promise<string | null> {
  return readFile(file, 'utf8').catch(ifMissing(null));
}
