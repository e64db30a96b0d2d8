/** The segments of a journal that is being written: the one that takes records, the next when it is full, and the quota of all. */
import { asJournalError } from './write-fault.js';
import type { JournalError } from './journal-error.js';
import { JOURNAL_LIMITS, segmentBytesFor } from './journal-limits.js';
import { measureSegments, segmentsOver, type Trim, trimSegments } from './journal-trim.js';
import type { OpenedJournal } from './repair.js';
import { SEGMENT_HEADER_BYTES } from './segment-file.js';
import { syncFolder } from '../platform/write-atomically.js';
import { SegmentWriter } from './segment-writer.js';

export interface SegmentSequenceOptions {
  /** All segments together; the one that is written counts as full, so that the quota holds at any time. */
  readonly maxBytes?: number;
  readonly segmentBytes?: number;
  /** The oldest records were removed, because the journal had reached `maxBytes`. */
  readonly onTrimmed?: (trim: Trim) => void;
  /** Closing a segment or removing old ones has failed; writing goes on. */
  readonly onFault: (fault: JournalError) => void;
}

export class SegmentSequence {
  readonly #maxBytes: number;
  readonly #segmentBytes: number;
  readonly #finishing = new Set<Promise<void>>();
  #trimming: Promise<void> = Promise.resolve();
  #current: SegmentWriter | null = null;

  constructor(
    private readonly dir: string,
    private readonly options: SegmentSequenceOptions
  ) {
    this.#maxBytes = options.maxBytes ?? JOURNAL_LIMITS.kernelBytes;
    this.#segmentBytes = options.segmentBytes ?? segmentBytesFor(this.#maxBytes);
  }

  /** Null when the segment can be written to. */
  async reopen(tail: OpenedJournal['tail']): Promise<JournalError | null> {
    try {
      this.#current = tail === null ? null : await SegmentWriter.reopen(tail.file, tail.firstSeq, tail.bytes);
      return null;
    } catch (error) {
      return asJournalError(error, 'opening');
    }
  }

  /** Where so many bytes that begin with record `seq` belong. Throws when there has to be a new segment and cannot be one. */
  for(seq: number, bytes: number): SegmentWriter {
    const current = this.#current;
    return current === null ||
      (current.bytes > SEGMENT_HEADER_BYTES && current.bytes + bytes > this.#segmentBytes)
      ? this.#begin(seq)
      : current;
  }

  async sync(): Promise<void> {
    await this.#current?.sync();
  }

  /** What goes on in the background has ended, and the last segment is closed. */
  async finish(): Promise<void> {
    await Promise.all(this.#finishing);
    try {
      await this.#current?.finish();
    } catch (error) {
      throw asJournalError(error, 'closing');
    }
  }

  /** One at a time, or two would remove what the other has counted. */
  keepQuota(): void {
    this.#trimming = this.#trimming.then(async () => {
      const over = segmentsOver(await measureSegments(this.dir), this.#maxBytes - this.#segmentBytes);
      const trim = over === 0 ? null : await trimSegments(this.dir, over, 'journal_quota');
      if (trim !== null) {
        this.options.onTrimmed?.(trim);
      }
    });
    this.#background(this.#trimming, 'removing old segments');
    this.#trimming = this.#trimming.catch(() => undefined);
  }

  #begin(firstSeq: number): SegmentWriter {
    const next = SegmentWriter.create(this.dir, firstSeq);
    const previous = this.#current;
    this.#current = next;
    this.#background(Promise.all([previous?.finish(), syncFolder(this.dir)]), 'closing a segment');
    this.keepQuota();
    return next;
  }

  #background(work: Promise<unknown>, doing: string): void {
    const settled: Promise<void> = work
      .then(
        () => undefined,
        (error: unknown) => this.options.onFault(asJournalError(error, doing))
      )
      .finally(() => this.#finishing.delete(settled));
    this.#finishing.add(settled);
  }
}
