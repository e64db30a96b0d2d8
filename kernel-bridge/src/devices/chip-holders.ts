/** The holders of the chips: processes that have a device file open, or hold the lock of libtpu. */
import { lstat, readdir, readFile, readlink, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Holder, LibtpuLock } from '@tpulab/protocol';
import { type ChipTable, findChips } from '@tpulab/machines';

export interface ChipHoldersOptions {
  readonly table: ChipTable;
  /** Replaces `/` in specs. */
  readonly root?: string | undefined;
  readonly lockFile?: string | undefined;
}

/** Facts that are visible from outside; the gateway adds the kernels that it knows. */
export type FoundHolder = Omit<Holder, 'kernel'>;

export class ChipHolders {
  readonly #table: ChipTable;
  readonly #root: string;
  readonly #lockFile: string;

  constructor({ table, root = '/', lockFile = LIBTPU_LOCK }: ChipHoldersOptions) {
    this.#table = table;
    this.#root = root;
    this.#lockFile = lockFile;
  }

  async find(): Promise<{ chips: number; holders: FoundHolder[]; lock: LibtpuLock }> {
    const root = this.#root;
    const chips = await findChips(this.#table, root);
    const [owners, lock] = await Promise.all([
      chipOwners(
        chips.flatMap(({ node }) => node ?? []),
        root
      ),
      this.lock()
    ]);
    const nodes = new Map<number, string[]>(lock.pids.map(pid => [pid, []]));
    for (const [node, found] of owners) {
      for (const { pid } of found) nodes.set(pid, [...(nodes.get(pid) ?? []), node]);
    }
    const holders = await Promise.all(
      [...nodes].map(async ([pid, openFiles]): Promise<FoundHolder> => {
        const command = await readFile(path.join(root, 'proc', String(pid), 'comm'), 'utf8').catch(
          () => null
        );
        return {
          pid,
          user: await userOfProcess(pid, root),
          command: command?.trim() ?? null,
          nodes: openFiles,
          holdsLock: lock.pids.includes(pid),
          kernelId: await kernelOfProcess(pid, root)
        };
      })
    );
    return { chips: chips.length, holders: holders.sort((one, other) => one.pid - other.pid), lock };
  }

  lock(): Promise<LibtpuLock> {
    return readLock(this.#root, this.#lockFile);
  }

  /** Removes the lock file; the caller decides whether that is allowed. */
  removeLock(): Promise<void> {
    return removeLock(this.#root, this.#lockFile);
  }
}

/**
 * The lock file of libtpu. A process that uses the chips holds a lock on it until it ends; the lock ends with the process, but
 * the file stays. If another user left the file, it cannot be opened, and libtpu then reports that the TPU is in use although no
 * process uses it.
 */
const LIBTPU_LOCK = '/tmp/libtpu_lockfile';

/** @param root replaces `/` in specs */
async function readLock(root = '/', file = LIBTPU_LOCK): Promise<LibtpuLock> {
  const found = await lstat(path.join(root, file)).catch(() => null);
  if (found?.isFile() !== true) return { path: file, state: 'none', owner: null, pids: [] };
  const owner = await userName(found.uid, root);
  const [locked, opened] = await Promise.all([lockHolders(found.ino, root), openedBy(file, root)]);
  const pids = [...new Set([...(locked ?? []), ...opened])].sort((one, other) => one - other);
  if (pids.length > 0) return { path: file, state: 'held', owner, pids };
  // Without the kernel's list of locks, other users' locks are invisible.
  return { path: file, state: locked === null ? 'unknown' : 'left', owner, pids };
}

async function removeLock(root = '/', file = LIBTPU_LOCK): Promise<void> {
  await rm(path.join(root, file));
}

/**
 * The lock holders of all users. Compares only the inode, because layered file systems show other device numbers; so a free
 * lock may appear to be held.
 */
async function lockHolders(inode: number, root: string): Promise<number[] | null> {
  const text = await readFile(path.join(root, 'proc/locks'), 'utf8').catch(() => null);
  if (text === null) return null;
  return text.split('\n').flatMap(line => {
    const [, pid, openFiles] =
      /^\d+:\s+(?:POSIX|FLOCK|OFDLCK)\s+\S+\s+\S+\s+(-?\d+)\s+\S+:\S+:(\d+)\s/.exec(line) ?? [];
    return Number(openFiles) === inode && Number(pid) > 0 ? [Number(pid)] : [];
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

/** @param root replaces `/` in specs */
async function userOfProcess(pid: number, root = '/'): Promise<string | null> {
  const found = await stat(path.join(root, 'proc', String(pid))).catch(() => null);
  return found === null ? null : userName(found.uid, root);
}

/** The name, or the number if there is none: users of a directory service are not in the file. */
async function userName(uid: number, root = '/'): Promise<string> {
  const text = await readFile(path.join(root, 'etc/passwd'), 'utf8').catch(() => '');
  for (const line of text.split('\n')) {
    const [name, , number] = line.split(':');
    if (name && number === String(uid)) return name;
  }
  return String(uid);
}

/** Kernels and their child processes have the id of the kernel in their environment. */
const ID = /(?:^|\0)TPULAB_KERNEL_ID=([\w-]{1,64})(?:\0|$)/;

/** null for processes of other users, and for processes outside kernels. No other variable of the environment is read. */
export async function kernelOfProcess(pid: number, root = '/'): Promise<string | null> {
  const text = await readFile(path.join(root, 'proc', String(pid), 'environ'), 'latin1').catch(() => '');
  return ID.exec(text)?.[1] ?? null;
}

/** A process that holds chips: it turns "TPU already in use" into a name. */
export interface Owner {
  readonly pid: number;
  readonly command: string | null;
}

/** Scans open files; only root can see the files of other users, so a normal user does not find those. */
export async function chipOwners(
  nodes: readonly string[],
  root = '/'
): Promise<ReadonlyMap<string, readonly Owner[]>> {
  const owners = new Map<string, Owner[]>(nodes.map(node => [node, []]));
  if (nodes.length === 0) return owners;
  const proc = path.join(root, 'proc');
  const pids = (await readdir(proc).catch((): string[] => [])).filter(name => /^\d+$/.test(name));
  for (const pid of pids) {
    const openFiles = await openNodes(path.join(proc, pid, 'fd'), owners);
    if (openFiles.size === 0) continue;
    const command = (await readFile(path.join(proc, pid, 'comm'), 'utf8').catch(() => null))?.trim() ?? null;
    for (const node of openFiles) owners.get(node)?.push({ pid: Number(pid), command });
  }
  return owners;
}

async function openNodes(folder: string, nodes: ReadonlyMap<string, unknown>): Promise<Set<string>> {
  const openFiles = new Set<string>();
  for (const fd of await readdir(folder).catch((): string[] => [])) {
    const target = await readlink(path.join(folder, fd)).catch(() => null);
    if (target !== null && nodes.has(target)) openFiles.add(target);
  }
  return openFiles;
}
