/** Handles messages while the journal cannot be written: some are buffered, the rest are counted. */
import { fullDisk } from '@tpulab/platform/full-disk.js';
import { JournalError } from './journal-error.js';
import type { PendingBatch } from './record-batch.js';
import type { GapRecord } from './record.js';

/** Memory for a kernel's output while the disk is full. Requests, replies and states may use the same amount again. */
export const BUFFER_BYTES = 8 * 1024 * 1024;

export class WriteFault {
  readonly #buffered: PendingBatch[] = [];
  #bufferedBytes = 0;
  #count = 0;
  #from = 0;
  #to = 0;

  constructor(
    readonly error: JournalError,
    private readonly bufferLimit: number
  ) {}

  /** Whether a message of this size can still be buffered. `openBytes` are in the batch that is still open. */
  admits(bytes: number, openBytes: number, essential: boolean): boolean {
    return this.#bufferedBytes + openBytes + bytes <= (essential ? 2 * this.bufferLimit : this.bufferLimit);
  }

  hold(batch: PendingBatch): void {
    this.#buffered.push(batch);
    this.#bufferedBytes += batch.end - batch.start;
  }

  get next(): PendingBatch | undefined {
    return this.#buffered[0];
  }

  /** The batch `next` is in the file. */
  written(): void {
    const batch = this.#buffered.shift();
    this.#bufferedBytes -= batch === undefined ? 0 : batch.end - batch.start;
  }

  missed(time: number): void {
    this.#from = this.#count === 0 ? time : this.#from;
    this.#to = time;
    this.#count++;
  }

  /** The gap to report once writing works; null when nothing was lost. Restarts the count. */
  drainGap(): GapRecord | null {
    const count = this.#count;
    this.#count = 0;
    return count === 0
      ? null
      : {
          type: 'gap',
          count,
          code: this.error.code,
          reason: this.error.message,
          from: this.#from,
          // The clock may have been set back in between.
          to: Math.max(this.#from, this.#to)
        };
  }
}

export function asJournalError(cause: unknown, doing: string): JournalError {
  const code = (cause as NodeJS.ErrnoException | null)?.code ?? 'unknown error';
  const full = fullDisk(cause);
  return full !== null
    ? new JournalError(
        'journal_disk_full',
        `The journal cannot be written, because ${full.why} (${code} while ${doing}); ${full.remedy}.`,
        {
          cause
        }
      )
    : new JournalError(
        'journal_write_failed',
        `The journal failed with ${code} while ${doing}; see the keeper's log.`,
        {
          cause
        }
      );
}
