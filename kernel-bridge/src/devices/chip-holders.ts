/** Who holds the chips: the processes that have a device file open, or the lock of libtpu. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Holder, LibtpuLock } from '@tpulab/protocol';
import { chipOwners } from './chip-owners.js';
import type { ChipTable } from './chip-table.js';
import { findChips } from './find-chips.js';
import { kernelOfProcess } from './kernel-of-process.js';
import { LIBTPU_LOCK, readLock, removeLock } from './libtpu-lock.js';
import { userOfProcess } from './process-user.js';

export interface ChipHoldersOptions {
  readonly table: ChipTable;
  /** Stands for `/` in specs. */
  readonly root?: string | undefined;
  readonly lockFile?: string | undefined;
}

/** What can be seen from outside the gateway; it adds what it knows of its kernels. */
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
      [...nodes].map(async ([pid, held]): Promise<FoundHolder> => {
        const command = await readFile(path.join(root, 'proc', String(pid), 'comm'), 'utf8').catch(
          () => null
        );
        return {
          pid,
          user: await userOfProcess(pid, root),
          command: command?.trim() ?? null,
          nodes: held,
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

  /** Whether it may be removed is for the caller to say. */
  removeLock(): Promise<void> {
    return removeLock(this.#root, this.#lockFile);
  }
}
