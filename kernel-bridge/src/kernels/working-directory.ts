/** The folder in which a kernel starts, from the path that a client names. */
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { isWithin } from '@tpulab/platform/paths.js';

/** Jupyter's own gateway client names the folder on the client's machine with it; it is also ours when it is the same machine. */
export const WORKING_DIR = 'KERNEL_WORKING_DIR';

/**
 * Client paths are relative to the root folder. A path that does not exist here (a notebook on the
 * page's machine) must still work, so the nearest folder above it is used, at most the root.
 */
export async function workingDirectory(
  rootDir: string,
  clientPath: string | null | undefined,
  ofClient = ''
): Promise<string> {
  if (path.isAbsolute(ofClient) && !ofClient.includes('\0') && (await isFolder(ofClient))) return ofClient;
  const root = path.resolve(rootDir);
  const requested = (clientPath ?? '').replaceAll('\0', '');
  // A leading slash of the client means the root folder, unless it names the root itself, as a page does that knows the path of a folder on
  // this machine. `..` cannot lead out of it.
  const below = path.posix.normalize(`/${requested}`);
  const isWhole = requested.startsWith('/') && isWithin(root, below);
  let folder = isWhole ? path.resolve(below) : path.resolve(root, `.${below}`);
  while (folder !== root && !(await isFolder(folder))) folder = path.dirname(folder);
  return folder;
}

async function isFolder(folder: string): Promise<boolean> {
  try {
    return (await stat(folder)).isDirectory();
  } catch {
    return false;
  }
}
