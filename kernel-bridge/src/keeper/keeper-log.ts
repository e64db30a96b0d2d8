/**
 * The log of a keeper: one JSON object per line, in the format that pino writes for the gateway. Pino itself would be half
 * of a keeper's code and memory.
 */
import { statSync, writeSync } from 'node:fs';
import { open, rename, rm, truncate } from 'node:fs/promises';

/** The logger of a keeper's parts; a pino logger also fits. */
export type KeeperLog = Readonly<Record<'debug' | Level, LogMethod>>;

interface LogMethod {
  (fields: object, message: string): void;
  (message: string): void;
}

/** Pino's numbers. Lower levels are not written. */
const LEVELS = { info: 30, warn: 40, error: 50, fatal: 60 } as const;
type Level = keyof typeof LEVELS;

const MAX_CAUSES = 5;

/** Writes to the descriptor immediately, so that the last messages before an exit are in the log. */
export function keeperLog(fd: number): KeeperLog {
  const at =
    (level: Level): LogMethod =>
    (first: object | string, message?: string) => {
      const fields = typeof first === 'string' ? {} : first;
      const head = { level: LEVELS[level], time: Date.now(), pid: process.pid };
      const msg = typeof first === 'string' ? first : message;
      try {
        writeSync(fd, `${lineOf({ ...head, ...fields, msg })}\n`);
      } catch {
        // A full disk must not end a keeper because its log cannot be written.
      }
    };
  return {
    debug: () => undefined,
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    fatal: at('fatal')
  };
}

function lineOf(entry: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(entry, (_key, value: unknown) => {
    if (value instanceof Error) return describe(value, MAX_CAUSES);
    return typeof value === 'bigint' ? Number(value) : value;
  });
}

/** JSON.stringify omits an error's message. */
function describe(error: Error, causes: number): object {
  const { name, message, stack, cause } = error;
  return {
    ...Object.fromEntries(Object.entries(error)),
    type: name,
    message,
    stack,
    cause: cause instanceof Error && causes > 0 ? describe(cause, causes - 1) : undefined
  };
}

/**
 * Keeps `kernel.log` and `keeper.log` within a bound. The processes that write them have them open for appending, so they
 * cannot be renamed: the contents are copied to `NAME.1` and the file is emptied, and the next line starts at its
 * beginning. Lines written between the copy and the emptying are lost; this log is a last resort, and the output of cells
 * is in the journal.
 */
interface LogBoundOptions {
  /** At this size a log is archived. */
  readonly maxBytes?: number;
  readonly intervalMs?: number;
}

/** At most two files of this size per log, plus the output between two checks. */
const MAX_BYTES = 8 * 1024 * 1024;
const INTERVAL_MS = 5_000;
const CHUNK_BYTES = 256 * 1024;

export class LogBound implements AsyncDisposable {
  readonly #maxBytes: number;
  readonly #timer: NodeJS.Timeout;
  #checking: Promise<void> | null = null;

  constructor(
    private readonly files: readonly string[],
    private readonly log: KeeperLog,
    { maxBytes = MAX_BYTES, intervalMs = INTERVAL_MS }: LogBoundOptions = {}
  ) {
    this.#maxBytes = maxBytes;
    this.#timer = setInterval(() => void this.check(), intervalMs);
    this.#timer.unref();
  }

  /** Checks all files once. Never rejects; joins a running check. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => (this.#checking = null));
    return this.#checking;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#checking;
  }

  async #check(): Promise<void> {
    for (const file of this.files) {
      try {
        // In this thread: for an idle kernel, waking another thread was most of the cost.
        const { size } = statSync(file);
        if (size > this.#maxBytes) await this.#rotate(file, size);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
          this.log.warn({ err: error, file }, 'a log could not be kept within its bound');
        }
      }
    }
  }

  async #rotate(file: string, size: number): Promise<void> {
    try {
      await copyEnd(file, `${file}.1`, size, this.#maxBytes);
    } catch (error) {
      // On a full disk the bound is more important than the log's contents.
      this.log.warn({ err: error, file }, 'a log was emptied without a copy');
    }
    await truncate(file, 0);
  }
}

/** Copies the newest `bytes`, completely or not at all. */
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
