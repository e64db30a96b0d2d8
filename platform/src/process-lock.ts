/**
 * A lock file that stays usable after its holder was killed.
 *
 * The file names its holder by pid and start time. A holder that has ended does not have to be removed first, which
 * would race: two processes that find the same stale file could both remove one and create another. Instead a new holder
 * creates a second file, named after the content of the stale one, and so on. All are created as hard links, which only
 * one process can create, and the last living one in the chain holds the lock. Removing the first file releases the
 * lock, and makes the whole chain obsolete, because the next first file has other content.
 *
 * A holder on another machine, or in another container, is not visible from here. It touches its file for as long as it
 * lives, and holds the lock until it has not done so for a while (`process-identity.ts`).
 */
import { createHash, randomUUID } from 'node:crypto';
import { link, rm, writeFile } from 'node:fs/promises';
import {
  beat,
  beating,
  HEARTBEAT_MS,
  isForeign,
  nameOf,
  type Presence,
  presenceOf,
  type ProcessHost,
  processStart,
  thisHost
} from './process-identity.js';
import { readIfThere } from './missing-files.js';

/** A process that holds a lock, or did. */
interface LockHolder {
  readonly pid: number;
  /** Name of its machine or container, when its processes are not visible from here. */
  readonly elsewhere?: string;
}

export interface ProcessLock extends AsyncDisposable {
  readonly file: string;
  /** The last holder, which had ended without releasing the lock. */
  readonly replaced: LockHolder | null;
  /** Touches this file too while the lock is held. */
  touchWithLock(file: string): void;
}

interface LockOptions {
  /** How long a remote holder that seems to have stopped is watched before its lock is claimed. */
  readonly watchMs?: number;
  /** Another process claimed the lock because this process did not run for a while, or its disk did not answer. */
  readonly onLost?: () => void;
}

/** Another process holds it. */
export class LockHeldError extends Error {
  override readonly name = 'LockHeldError';
  readonly code = 'lock_held';

  constructor(
    readonly file: string,
    readonly holder: LockHolder
  ) {
    super(`${file} is held by ${describeHolder(holder)}; wait until that process has ended, or end it.`);
  }
}

/** "process 7", "process 7 on login2". */
export function describeHolder({ pid, elsewhere }: LockHolder): string {
  return elsewhere === undefined ? `process ${pid}` : `process ${pid} on ${elsewhere}`;
}

/**
 * Claims the lock `file` for this process.
 *
 * @throws LockHeldError when a living process holds it; this process counts too
 */
export async function takeProcessLock(file: string, options: LockOptions = {}): Promise<ProcessLock> {
  const own = `${file}.${randomUUID()}`;
  const start = (await processStart(process.pid)) ?? 'unknown';
  // The id makes the content differ from any earlier holder's, this process's own included.
  const content = JSON.stringify({ pid: process.pid, start, host: await thisHost(), id: randomUUID() });
  await writeFile(own, content, { mode: 0o600 });
  try {
    for (;;) {
      const chain = await readChain(file);
      await refuseLiving(file, chain, options);
      if (!(await tryLink(own, chain.next))) continue;
      // If the first file changed meanwhile, the chain that was read is outdated.
      const first = chain.links[0];
      if (first === undefined || (await readIfThere(file)) === first.content) {
        return new HeldLock(
          file,
          [...chain.links.map(({ path }) => path), chain.next],
          content,
          chain,
          options
        );
      }
      await rm(chain.next, { force: true });
    }
  } finally {
    await rm(own, { force: true });
  }
}

/** Throws unless the whole chain has ended. A holder that may have stopped for good is watched first. */
async function refuseLiving(file: string, { links }: Chain, options: LockOptions): Promise<void> {
  const last = links.at(-1);
  if (last === undefined || last.presence === 'ended') return;
  const held = new LockHeldError(file, last.holder);
  if (last.presence !== 'silent') throw held;
  if ((await beating([last.path], options.watchMs)).length > 0) throw held;
}

/** The last holder of the lock, and whether it still runs. */
export async function ownerOf(file: string): Promise<{ holder: LockHolder | null; presence: Presence }> {
  const { holder = null, presence = 'ended' } = (await readChain(file)).links.at(-1) ?? {};
  return { holder, presence };
}

/** The living process that holds the lock, or null. A remote one that has stopped for a while counts as ended. */
export async function holderOf(file: string): Promise<LockHolder | null> {
  const { holder, presence } = await ownerOf(file);
  return presence === 'here' || presence === 'elsewhere' ? holder : null;
}

class HeldLock implements ProcessLock {
  readonly replaced: LockHolder | null;
  readonly #beaten: Set<string>;
  readonly #timer: NodeJS.Timeout;

  constructor(
    readonly file: string,
    private readonly paths: readonly string[],
    private readonly content: string,
    { links }: Chain,
    private readonly options: LockOptions
  ) {
    this.replaced = links.at(-1)?.holder ?? null;
    this.#beaten = new Set([this.#own]);
    this.#timer = setInterval(() => void this.#beat(), HEARTBEAT_MS);
    this.#timer.unref();
  }

  get #own(): string {
    return this.paths.at(-1) ?? this.file;
  }

  touchWithLock(file: string): void {
    this.#beaten.add(file);
    void beat([file]);
  }

  async #beat(): Promise<void> {
    if (this.options.onLost !== undefined && (await this.#isLost())) {
      clearInterval(this.#timer);
      this.options.onLost();
      return;
    }
    await beat(this.#beaten);
  }

  /** Whether it was removed, or another holder follows. A disk that does not answer decides neither. */
  async #isLost(): Promise<boolean> {
    try {
      return (
        (await readIfThere(this.#own)) !== this.content ||
        (await readIfThere(followerOf(this.file, this.content))) !== null
      );
    } catch {
      return false;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    if (await this.#isLost()) return;
    // The first file first: from then on the lock is free, and the others are leftovers.
    for (const path of this.paths) await rm(path, { force: true });
  }
}

interface Chain {
  /** From the first. All but the last have ended. */
  readonly links: readonly {
    readonly path: string;
    readonly content: string;
    readonly holder: LockHolder;
    readonly presence: Presence;
  }[];
  /** The file that a new holder has to create. */
  readonly next: string;
}

async function readChain(file: string): Promise<Chain> {
  const links: Chain['links'][number][] = [];
  for (let path = file; ;) {
    const content = await readIfThere(path);
    if (content === null) return { links, next: path };
    links.push({ path, content, ...(await holderIn(content, path)) });
    path = followerOf(file, content);
  }
}

/** A new holder that follows the one with this content creates this file. */
function followerOf(file: string, content: string): string {
  return `${file}.${createHash('sha256').update(content).digest('hex').slice(0, 16)}`;
}

async function holderIn(content: string, path: string): Promise<{ holder: LockHolder; presence: Presence }> {
  try {
    const { pid, start, host } = JSON.parse(content) as {
      pid?: unknown;
      start?: unknown;
      host?: ProcessHost;
    };
    if (typeof pid === 'number' && typeof start === 'string') {
      const presence = await presenceOf({ pid, start, host }, path);
      return { holder: isForeign(presence) ? { pid, elsewhere: await nameOf(host) } : { pid }, presence };
    }
  } catch {
    // Half written: it has no holder.
  }
  return { holder: { pid: 0 }, presence: 'ended' };
}

/** A hard link fails when the name exists, and the file has its whole content from the beginning. */
async function tryLink(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}
