/**
 * Keeps `kernel.log` and `keeper.log` within a bound. The processes that write them have them open for appending, so they
 * cannot be renamed away: what is there is copied to `NAME.1` and the file is emptied, and the next line begins it anew. What is
 * written between the copy and the emptying is lost; it is a log of last resort, what cells print is in the journal.
 */
import { statSync } from 'node:fs';
import { open, rename, rm, truncate } from 'node:fs/promises';
import type { KeeperLog } from './keeper-log.js';

export interface LogBoundOptions {
  /** At this size a log is put aside. */
  readonly maxBytes?: number;
  readonly intervalMs?: number;
}

/** Two files of this size at most for each log, and what a process writes between two looks. */
const MAX_BYTES = 8 * 1024 * 1024;
const INTERVAL_MS = 5_000;
const CHUNK_BYTES = 256 * 1024;

export class LogBound implements AsyncDisposable {
  readonly #maxBytes: number;
  readonly #timer: NodeJS.Timeout;
  #looking: Promise<void> | null = null;

  constructor(
    private readonly files: readonly string[],
    private readonly log: KeeperLog,
    { maxBytes = MAX_BYTES, intervalMs = INTERVAL_MS }: LogBoundOptions = {}
  ) {
    this.#maxBytes = maxBytes;
    this.#timer = setInterval(() => void this.look(), intervalMs);
    this.#timer.unref();
  }

  /** Looks once at all files. Never rejects; joins a look that is under way. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
    return this.#looking;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  async #look(): Promise<void> {
    for (const file of this.files) {
      try {
        // In this thread: for an idle kernel, waking another one for it was most of what it cost.
        const { size } = statSync(file);
        if (size > this.#maxBytes) await this.#putAside(file, size);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
          this.log.warn({ err: error, file }, 'a log could not be kept within its bound');
        }
      }
    }
  }

  async #putAside(file: string, size: number): Promise<void> {
    try {
      await copyEnd(file, `${file}.1`, size, this.#maxBytes);
    } catch (error) {
      // On a full disk the bound counts for more than what is in the log.
      this.log.warn({ err: error, file }, 'a log was emptied without a copy');
    }
    await truncate(file, 0);
  }
}

/** The newest `bytes`, whole or not at all. */
async function copyEnd(file: string, target: string, size: number, bytes: number): Promise<void> {
  const draft = `${target}.tmp`;
  const source = await open(file, 'r');
  try {
    const copy = await open(draft, 'w', 0o600);
    try {
      const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
      for (let at = Math.max(size - bytes, 0); ;) {
        const { bytesRead } = await source.read(buffer, 0, CHUNK_BYTES, at);
        if (bytesRead === 0) break;
        await copy.writeFile(buffer.subarray(0, bytesRead));
        at += bytesRead;
      }
    } finally {
      await copy.close();
    }
    await rename(draft, target);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  } finally {
    await source.close();
  }
}
