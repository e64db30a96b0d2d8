/**
 * A lock file that a killed process cannot leave closed.
 *
 * The file names its holder by pid and start time. A holder that has ended does not have to be removed first, which
 * would race: two that find the same stale file could both remove one and make another. Instead whoever takes over
 * makes a second file, named after the content of the stale one, and so on. All are made by hard links, which exactly
 * one can make, and the last living one in the chain holds the lock. To release is to remove the first file, and with
 * it the whole chain, because the next first file has other content.
 */
import { createHash, randomUUID } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { isSameProcess, processStart } from './process-identity.js';

/** A living process that holds a lock. */
export interface LockHolder {
  readonly pid: number;
}

export interface ProcessLock extends AsyncDisposable {
  readonly file: string;
}

/** Somebody else holds it. */
export class LockHeldError extends Error {
  override readonly name = 'LockHeldError';
  readonly code = 'lock_held';

  constructor(
    readonly file: string,
    readonly holder: LockHolder
  ) {
    super(`${file} is held by process ${holder.pid}; wait until that process has ended, or end it.`);
  }
}

/**
 * Takes the lock `file` for this process.
 *
 * @throws LockHeldError when a living process has it; this process counts too
 */
export async function takeProcessLock(file: string): Promise<ProcessLock> {
  const own = `${file}.${randomUUID()}`;
  const start = (await processStart(process.pid)) ?? 'unknown';
  // The id makes the content unlike that of any earlier holder, this process's own included.
  await writeFile(own, JSON.stringify({ pid: process.pid, start, id: randomUUID() }), { mode: 0o600 });
  try {
    for (;;) {
      const chain = await readChain(file);
      if (chain.holder) throw new LockHeldError(file, chain.holder);
      if (!(await tryLink(own, chain.next))) continue;
      // If the first file changed meanwhile, the chain that was read is no longer the lock.
      const first = chain.links[0];
      if (first === undefined || (await contentOf(file)) === first.content) {
        return held(file, [...chain.links.map(({ path }) => path), chain.next]);
      }
      await rm(chain.next, { force: true });
    }
  } finally {
    await rm(own, { force: true });
  }
}

/** The living process that holds the lock, or null. */
export async function holderOf(file: string): Promise<LockHolder | null> {
  return (await readChain(file)).holder;
}

function held(file: string, paths: readonly string[]): ProcessLock {
  return {
    file,
    [Symbol.asyncDispose]: async () => {
      // The first file first: from then on the lock is free, and the others are litter.
      for (const path of paths) await rm(path, { force: true });
    }
  };
}

interface Chain {
  /** Files of holders that have ended, from the first. */
  readonly links: readonly { readonly path: string; readonly content: string }[];
  readonly holder: LockHolder | null;
  /** The file that a new holder has to make. */
  readonly next: string;
}

async function readChain(file: string): Promise<Chain> {
  const links: { path: string; content: string }[] = [];
  for (let path = file; ;) {
    const content = await contentOf(path);
    if (content === null) return { links, holder: null, next: path };
    const holder = await livingHolder(content);
    if (holder) return { links, holder, next: path };
    links.push({ path, content });
    path = `${file}.${createHash('sha256').update(content).digest('hex').slice(0, 16)}`;
  }
}

async function livingHolder(content: string): Promise<LockHolder | null> {
  try {
    const { pid, start } = JSON.parse(content) as { pid?: unknown; start?: unknown };
    if (typeof pid !== 'number' || typeof start !== 'string') return null;
    return (await isSameProcess(pid, start)) ? { pid } : null;
  } catch {
    return null;
  }
}

async function contentOf(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** A hard link fails when the name exists, and the file has its whole content from the first moment. */
async function tryLink(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}
