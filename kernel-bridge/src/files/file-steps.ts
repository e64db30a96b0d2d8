/**
 * The steps that replace and rename a file below the root folder, in checked folders: an interruption leaves either the old
 * or the new state.
 */
import { bridgeError, BridgeError } from '@tpulab/platform/errors.js';
import { fullDisk } from '@tpulab/platform/full-disk.js';
import { randomUUID } from 'node:crypto';
import { type BigIntStats, constants } from 'node:fs';
import {
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  rename,
  rm,
  rmdir,
  unlink
} from 'node:fs/promises';
import path from 'node:path';
import { isWritable, syncFolder } from '@tpulab/platform/write-atomically.js';
import { ifMissing } from '@tpulab/platform/missing-files.js';

const DRAFT = /^\.[\da-f-]{36}\.tpulab-draft$/;
/** A draft reaches this age only if the program that wrote it was killed. */
const DRAFT_MS = 60 * 60_000;

/** Removes the drafts of killed programs from a folder. */
export async function removeOldDrafts(folder: string): Promise<void> {
  for (const name of (await readdir(folder)).filter(each => DRAFT.test(each))) {
    const found = await lstat(path.join(folder, name)).catch(() => null);
    if (found !== null && Date.now() - found.mtimeMs > DRAFT_MS)
      await rm(path.join(folder, name), { force: true }).catch(() => undefined);
  }
}

/** null: no such file exists. */
export async function statOrNull(file: string): Promise<BigIntStats | null> {
  return lstat(file, { bigint: true }).catch(ifMissing(null));
}

/**
 * Draft, sync, rename: after an interruption, the file has its old content or its new one. A file that a new one could not
 * stand for is written in place, and gets its old content back if the write fails: one with other names (hard links), in a
 * read-only folder, of an owner or group that the draft cannot have, or mounted by itself, as into a container.
 *
 * @param last runs the step that replaces the file, or refuses it
 */
export async function replaceFile(
  target: string,
  bytes: Uint8Array,
  now: BigIntStats | null,
  last: (replace: () => Promise<void>) => Promise<void>
): Promise<void> {
  if (now !== null && (now.nlink > 1n || (await isOnlyFileWritable(target))))
    return last(() => writeInPlace(target, bytes));
  const draft = path.join(path.dirname(target), `.${randomUUID()}.tpulab-draft`);
  try {
    const handle = await open(draft, 'wx', now === null ? 0o666 : Number(now.mode & 0o777n));
    let isAlike = true;
    try {
      if (now !== null) isAlike = await becomesAlike(handle, now);
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await last(async () => {
      if (!isAlike) return writeInPlace(target, bytes);
      await rename(draft, target).catch((error: unknown) => {
        if ((error as NodeJS.ErrnoException).code !== 'EBUSY') throw error;
        return writeInPlace(target, bytes);
      });
    });
    await syncFolder(path.dirname(target));
  } finally {
    await rm(draft, { force: true });
  }
}

/** Gives a draft the owner, group and permissions of the file; false: this user may not. */
async function becomesAlike(draft: FileHandle, { uid, gid, mode }: BigIntStats): Promise<boolean> {
  const made = await draft.stat({ bigint: true });
  const isAlike =
    (made.uid === uid && made.gid === gid) ||
    (await draft.chown(Number(uid), Number(gid)).then(
      () => true,
      () => false
    ));
  await draft.chmod(Number(mode & 0o7777n));
  return isAlike;
}

async function isOnlyFileWritable(target: string): Promise<boolean> {
  return !(await isWritable(path.dirname(target))) && (await isWritable(target));
}

async function writeInPlace(target: string, bytes: Uint8Array): Promise<void> {
  await using handle = await open(target, constants.O_RDWR | constants.O_NOFOLLOW);
  const old = await handle.readFile();
  const write = async (content: Uint8Array): Promise<void> => {
    for (let at = 0; at < content.length;)
      at += (await handle.write(content, at, content.length - at, at)).bytesWritten;
    await handle.truncate(content.length);
    await handle.sync();
  };
  try {
    await write(bytes);
  } catch (error) {
    await write(old);
    throw error;
  }
}

/**
 * The system itself prevents a replacement: the new name is created first, as a link or as an empty placeholder that is
 * then replaced.
 */
export async function moveWithoutReplacing(from: string, target: string, to: string): Promise<void> {
  const found = await lstat(from);
  try {
    if (found.isFile() && (await isLinked(from, target))) await unlink(from).catch(rollBack);
    else {
      await (found.isDirectory() ? mkdir(target) : open(target, 'wx').then(handle => handle.close()));
      await rename(from, target).catch(rollBack);
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    // If names ignore case, the target name may be the moved file itself.
    const there = await lstat(target);
    const names = await readdir(path.dirname(target));
    const isSameFile = there.ino === found.ino && there.dev === found.dev;
    if (!isSameFile || names.includes(path.basename(target))) throw bridgeError('file_exists', to);
    await rename(from, target);
  }
  for (const folder of new Set([target, from].map(file => path.dirname(file)))) await syncFolder(folder);

  async function rollBack(error: unknown): Promise<never> {
    await (found.isDirectory() ? rmdir(target) : unlink(target)).catch(() => undefined);
    throw error;
  }
}

/** False: the file system has no hard links. */
async function isLinked(from: string, target: string): Promise<boolean> {
  try {
    await link(from, target);
    return true;
  } catch (error) {
    if (!['EPERM', 'ENOTSUP', 'EMLINK'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    return false;
  }
}

/** Creates one folder if its name is free. The error does not reveal whether the name belongs to a file or a link. */
export async function ensureFolder(at: string, mode?: number): Promise<void> {
  try {
    await mkdir(at, mode);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/* Paths in the clients' notation: relative to the root folder, with slashes. This code does not access the disk. */

const MAX_PATH_BYTES = 4096;
/** The limit for one name on every common file system. */
const MAX_NAME_BYTES = 255;
/** Control characters. A backslash is an ordinary character in a name on every supported system. */
const FORBIDDEN = /[\u0000-\u001f\u007f]/;

/**
 * The names on the path to a file. None can be `..`, hidden or a path itself, so when joined to a folder they stay below
 * it, unless a link leads out.
 *
 * @param path the decoded path @throws BridgeError `file_path_invalid`
 */
export function namesOf(path: string): readonly string[] {
  if (path === '') return [];
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) throw bridgeError('file_path_invalid', path, 'is too long');
  const names = path.split('/');
  for (const name of names) {
    if (name === '') throw bridgeError('file_path_invalid', path, 'has an empty part');
    if (name.startsWith('.'))
      throw bridgeError('file_path_invalid', path, 'names a hidden file, or leaves its folder');
    if (FORBIDDEN.test(name))
      throw bridgeError('file_path_invalid', path, 'has a character that no name may have');
    if (Buffer.byteLength(name) > MAX_NAME_BYTES)
      throw bridgeError('file_path_invalid', path, 'has a name that is too long');
    if (/\p{Surrogate}/u.test(name)) throw bridgeError('file_path_invalid', path, 'is not valid Unicode');
  }
  return names;
}

/** The names of a file itself, which cannot be the root folder. @throws BridgeError `file_path_invalid` */
export function fileNamesOf(path: string): readonly [folder: readonly string[], name: string] {
  const names = namesOf(path);
  const name = names.at(-1);
  if (name === undefined) throw bridgeError('file_path_invalid', path, 'names the root folder');
  return [names.slice(0, -1), name];
}

export function asFileError(error: unknown, path: string): BridgeError {
  if (error instanceof BridgeError) return error;
  const full = fullDisk(error);
  if (full !== null) return bridgeError('file_storage_full', path, full, error);
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return bridgeError('file_not_found', path);
    case 'EEXIST':
    case 'ENOTEMPTY':
      return bridgeError('file_exists', path);
    case 'EISDIR':
      return bridgeError('file_wrong_kind', path, 'file');
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return bridgeError('file_denied', path, error);
    case 'ENAMETOOLONG':
    case 'EINVAL':
      return bridgeError('file_path_invalid', path, 'cannot be the name of a file here');
    // A dangling or circular link.
    case 'ELOOP':
      return bridgeError('file_not_found', path);
    default:
      return bridgeError('file_action_failed', path, error);
  }
}
