/**
 * The trash: a hidden folder of the root. Each deletion has its own folder there, named after its time, which contains the
 * deleted file under its old path. Links in it are never followed.
 */
import { bridgeError } from '@tpulab/platform/errors.js';
import { randomUUID } from 'node:crypto';
import { lstat, mkdir, readdir, rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import type { TrashItem } from '@tpulab/protocol';
import { ensureFolder, fileNamesOf } from './file-steps.js';
import { ifMissing } from '@tpulab/platform/missing-files.js';

/** Hidden, so that no client path reaches it. */
export const TRASH = '.tpulab-trash';
/**
 * Time, a random part, and the number of names in the old path, which separates the deleted entry from its parents and its
 * contents.
 */
const ID = /^(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-(\d\d\.\d{3}Z)-[0-9a-f]{8}-([1-9]\d{0,2})$/;

/** An entry of the trash: its location and its old path. */
interface Trashed {
  readonly at: string;
  readonly path: string;
  readonly isFile: boolean;
}

/** @returns the id of a new deletion, and the path for its file */
export async function placeInTrash(
  bin: string,
  names: readonly string[],
  now: Date
): Promise<{ id: string; at: string }> {
  await ensureFolder(bin, 0o700);
  await requireFolder(bin);
  const id = `${now.toISOString().replaceAll(':', '-')}-${randomUUID().slice(0, 8)}-${names.length}`;
  const at = path.join(bin, id, ...names);
  await mkdir(path.dirname(at), { recursive: true, mode: 0o700 });
  return { id, at };
}

/** Newest first. Entries that another program put there are omitted. */
export async function listTrash(bin: string, limit: number): Promise<{ items: TrashItem[]; isCut: boolean }> {
  const ids = (await namesIn(bin)).filter(name => ID.test(name)).sort((a, b) => (a < b ? 1 : -1));
  const items: TrashItem[] = [];
  for (const id of ids.slice(0, limit)) {
    const found = await findInTrash(bin, id).catch(() => null);
    if (found === null) continue;
    const [, day = '', minutes = '', seconds = ''] = ID.exec(id) ?? [];
    items.push({
      id,
      path: found.path,
      kind: found.isFile ? 'file' : 'folder',
      deletedAt: `${day}:${minutes}:${seconds}`
    });
  }
  return { items, isCut: ids.length > limit };
}

/** @throws BridgeError `file_not_found` also for an invalid id */
export async function findInTrash(bin: string, id: string): Promise<Trashed> {
  const depth = Number(ID.exec(id)?.[4] ?? Number.NaN);
  if (Number.isNaN(depth)) throw bridgeError('file_not_found', id);
  await requireFolder(bin);
  const names: string[] = [];
  for (let at = path.join(bin, id); names.length < depth; at = path.join(bin, id, ...names)) {
    await requireFolder(at);
    const [name, ...others] = await namesIn(at);
    if (name === undefined || others.length > 0) throw bridgeError('file_not_found', id);
    names.push(name);
  }
  // Validated like a client path: a file that no client can request is not restored either.
  const old = names.join('/');
  fileNamesOf(old);
  const at = path.join(bin, id, ...names);
  const found = await lstat(at);
  if (!found.isFile() && !found.isDirectory()) throw bridgeError('file_wrong_kind', old, 'file');
  return { at, path: old, isFile: found.isFile() };
}

/** Removes empty folders of a deletion. */
export async function tidyTrash(bin: string, at: string): Promise<void> {
  for (let folder = path.dirname(at); folder !== bin; folder = path.dirname(folder)) {
    try {
      await rmdir(folder);
    } catch {
      return;
    }
  }
}

/** Permanently removes one deletion. @throws BridgeError `file_not_found` also for an invalid id */
export async function removeFromTrash(bin: string, id: string): Promise<void> {
  if (!ID.test(id)) throw bridgeError('file_not_found', id);
  await requireFolder(bin);
  const at = path.join(bin, id);
  await requireFolder(at);
  // Removes links in the folder, but not their targets.
  await rm(at, { recursive: true });
}

/** Permanently deletes the contents of the trash, except entries of other programs. @returns the number of removed deletions */
export async function emptyTrash(bin: string): Promise<number> {
  const ids = (await namesIn(bin)).filter(name => ID.test(name));
  for (const id of ids) await removeFromTrash(bin, id);
  return ids.length;
}

function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(ifMissing<string[]>([]));
}

async function requireFolder(at: string): Promise<void> {
  if (!(await lstat(at)).isDirectory()) throw bridgeError('file_wrong_kind', path.basename(at), 'folder');
}
