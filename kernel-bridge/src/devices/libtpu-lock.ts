/**
 * The lock file of libtpu. A process that uses the chips has a lock on it until it ends; the lock goes with the process, the file
 * stays. A file that another user left cannot be opened, and libtpu then says that the TPU is in use although nobody uses it.
 */
import { lstat, readdir, readFile, readlink, rm } from 'node:fs/promises';
import path from 'node:path';
import type { LibtpuLock } from '@tpulab/protocol';
import { userName } from './process-user.js';

export const LIBTPU_LOCK = '/tmp/libtpu_lockfile';

/** @param root stands for `/` in specs */
export async function readLock(root = '/', file = LIBTPU_LOCK): Promise<LibtpuLock> {
  const found = await lstat(path.join(root, file)).catch(() => null);
  if (found?.isFile() !== true) return { path: file, state: 'none', owner: null, pids: [] };
  const owner = await userName(found.uid, root);
  const [locked, opened] = await Promise.all([lockHolders(found.ino, root), openedBy(file, root)]);
  const pids = [...new Set([...(locked ?? []), ...opened])].sort((one, other) => one - other);
  if (pids.length > 0) return { path: file, state: 'held', owner, pids };
  // Without the kernel's list of locks, processes of other users would not be seen.
  return { path: file, state: locked === null ? 'unknown' : 'left', owner, pids };
}

export async function removeLock(root = '/', file = LIBTPU_LOCK): Promise<void> {
  await rm(path.join(root, file));
}

/** Of all users. By the inode alone: on layered file systems the device number is another; so a lock may seem held that is not. */
async function lockHolders(inode: number, root: string): Promise<number[] | null> {
  const text = await readFile(path.join(root, 'proc/locks'), 'utf8').catch(() => null);
  if (text === null) return null;
  return text.split('\n').flatMap(line => {
    const [, pid, held] =
      /^\d+:\s+(?:POSIX|FLOCK|OFDLCK)\s+\S+\s+\S+\s+(-?\d+)\s+\S+:\S+:(\d+)\s/.exec(line) ?? [];
    return Number(held) === inode && Number(pid) > 0 ? [Number(pid)] : [];
  });
}

async function openedBy(file: string, root: string): Promise<number[]> {
  const proc = path.join(root, 'proc');
  const pids = (await readdir(proc).catch((): string[] => [])).filter(name => /^\d+$/.test(name));
  const found: number[] = [];
  for (const pid of pids) {
    const folder = path.join(proc, pid, 'fd');
    for (const fd of await readdir(folder).catch((): string[] => [])) {
      if ((await readlink(path.join(folder, fd)).catch(() => null)) !== file) continue;
      found.push(Number(pid));
      break;
    }
  }
  return found;
}
