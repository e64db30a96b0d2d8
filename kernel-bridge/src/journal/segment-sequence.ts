/** The segments of a journal that is being written: the open one, the next one when it is full, and the quota of all. */
import { asJournalError } from './write-fault.js';
import { JournalError } from './journal-error.js';
import { fullDisk } from '@tpulab/platform/full-disk.js';
import { pause } from '@tpulab/platform/waiting.js';
import { JOURNAL_LIMITS, segmentBytesFor } from './journal-limits.js';
import { measureSegments, segmentsOver, type Trim, trimSegments } from './journal-trim.js';
import type { OpenedJournal } from './repair.js';
import { SEGMENT_HEADER_BYTES } from './segment-file.js';
import { syncFolder } from '@tpulab/platform/write-atomically.js';
import { SegmentWriter } from './segment-writer.js';

export interface SegmentSequenceOptions {
  /** Limit of all segments together; the open one counts as full, so that the quota holds at any time. */
  readonly maxBytes?: number;
  readonly segmentBytes?: number;
  /** The oldest records were removed, because the journal had reached `maxBytes`. */
  readonly onTrimmed?: (trim: Trim) => void;
  /** Background work has failed, or has finally succeeded (null); writing continues. */
  readonly onFault: (work: Work, fault: JournalError | null) => void;
}

/** `syncing`: records may be missing on the disk. `closing` and `trimming`: nothing is missing. */
export type Work = 'syncing' | 'closing' | 'trimming';

/** Delay after failed background work. */
const RETRY_MS = 500;
const TRIM_RETRY_MS = 10_000;

export class SegmentSequence {
  readonly #maxBytes: number;
  readonly #segmentBytes: number;
  readonly #finishing = new Set<Promise<void>>();
  #trimming: Promise<void> = Promise.resolve();
  /** Records that a failed sync may have lost, and that could not be written again. */
  #lostFrom: { readonly cause: unknown; readonly from: number } | null = null;
  #current: SegmentWriter | null = null;
  /** Segments whose last sync has failed, and whose records are being written again. */
  readonly #atRisk = new Set<SegmentWriter>();
  #trimRetry: NodeJS.Timeout | null = null;
  readonly #ending = new AbortController();

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

  /**
   * The segment for this many bytes, which begin with record `seq`. Throws when it needs a new segment and cannot create
   * one.
   */
  for(seq: number, bytes: number): SegmentWriter {
    const current = this.#current;
    return current === null ||
      (current.bytes > SEGMENT_HEADER_BYTES && current.bytes + bytes > this.#segmentBytes)
      ? this.#begin(seq)
      : current;
  }

  /** Rejects while records are not known to be on the disk. Records that a failed sync may have lost are written again. */
  async sync(): Promise<void> {
    const current = this.#current;
    if (current !== null) await this.#secured(current);
  }

  /** Syncs the segment and returns it, or the segment that replaces it after a failed sync. */
  async #secured(segment: SegmentWriter): Promise<SegmentWriter> {
    try {
      await segment.sync();
      return segment;
    } catch (cause) {
      const { firstAbandonedSeq } = segment;
      this.#atRisk.add(segment);
      this.options.onFault('syncing', atRisk(cause, segment.atRiskFrom));
      const next = await segment.rewritten(next => {
        if (this.#current === segment) this.#current = next;
      });
      this.#atRisk.delete(segment);
      if (firstAbandonedSeq !== null) this.#lostFrom ??= { cause, from: firstAbandonedSeq };
      if (this.#lostFrom !== null) {
        this.options.onFault('syncing', atRisk(this.#lostFrom.cause, this.#lostFrom.from));
      } else if (this.#atRisk.size === 0) this.options.onFault('syncing', null);
      return next;
    }
  }

  /** Resolves when the background work has ended and the last segment is closed. */
  async finish(): Promise<void> {
    this.#ending.abort();
    clearTimeout(this.#trimRetry ?? undefined);
    await Promise.all(this.#finishing);
    await this.#trimming;
    if (this.#current === null) return;
    try {
      await (await this.#secured(this.#current)).finish();
    } catch (error) {
      this.#current.abandon();
      throw asJournalError(error, 'closing');
    }
  }

  /** Runs one at a time: two runs would both remove the segments that each has counted. */
  enforceQuota(): void {
    this.#trimming = this.#trimming.then(async () => {
      // The open segment counts as full, whatever its size when this runs.
      const segments = (await measureSegments(this.dir)).map((segment, index, all) =>
        index === all.length - 1 ? { ...segment, bytes: 0 } : segment
      );
      const over = segmentsOver(segments, this.#maxBytes - this.#segmentBytes);
      const trim = over === 0 ? null : await trimSegments(this.dir, over, 'journal_quota');
      if (trim !== null) this.options.onTrimmed?.(trim);
    });
    this.#trimming = this.#trimming.then(
      () => this.options.onFault('trimming', null),
      (error: unknown) => {
        this.options.onFault('trimming', asJournalError(error, 'removing old segments'));
        if (this.#ending.signal.aborted) return;
        clearTimeout(this.#trimRetry ?? undefined);
        this.#trimRetry = setTimeout(() => this.enforceQuota(), TRIM_RETRY_MS).unref();
      }
    );
  }

  #begin(firstSeq: number): SegmentWriter {
    const next = SegmentWriter.create(this.dir, firstSeq);
    const previous = this.#current;
    this.#current = next;
    const work: Promise<void> = this.#end(previous).finally(() => this.#finishing.delete(work));
    this.#finishing.add(work);
    this.enforceQuota();
    return next;
  }

  /** Closes a segment that has a successor. Retried until it is on the disk, or the journal is closed. */
  async #end(segment: SegmentWriter | null): Promise<void> {
    for (let left = segment; ;) {
      try {
        await syncFolder(this.dir);
        if (left !== null) {
          left = await this.#secured(left);
          await left.finish();
        }
        this.options.onFault('closing', null);
        return;
      } catch (error) {
        this.options.onFault('closing', asJournalError(error, 'closing a segment'));
        if (this.#ending.signal.aborted) {
          left?.abandon();
          return;
        }
        await pause(RETRY_MS, this.#ending.signal);
      }
    }
  }
}

/** The records that are lost if the machine fails now. */
function atRisk(cause: unknown, from: number): JournalError {
  const { code = 'unknown error' } = cause as NodeJS.ErrnoException;
  return new JournalError(
    fullDisk(cause) !== null ? 'journal_disk_full' : 'journal_write_failed',
    `The disk failed with ${code} while syncing: records from ${from} on may be missing when this machine fails. They are written again.`,
    { cause }
  );
}
