/**
 * Appends records and reports when they are in the file.
 *
 * Group commit: messages that arrive in one turn of the event loop are written at its end in one call, so a lone message is
 * written immediately. With `coalesceMs`, output closely after a write waits for more output; a request, reply or state
 * flushes it immediately. A batch is also written when it has 64 records, its first record is 5 ms old, or it is large.
 * Writing is synchronous because no client may get a record before it; syncing is in the background. A large record is
 * written immediately and separately, without a copy (`onStored`).
 *
 * When a write fails, messages are buffered in bounded memory and retried; messages that do not fit are counted and become
 * a `gap` record. Above the quota the oldest segments are removed when a new one begins.
 */
import { type JournalCut, repairJournal, UnrepairedError } from './repair.js';
import { JournalError } from './journal-error.js';
import { MAX_PAYLOAD_BYTES, RECORD_OVERHEAD, recordHead } from './record-codec.js';
import { BatchBuilder, type PendingBatch, type StoredRecord, type WrittenBatch } from './record-batch.js';
import { type GapRecord, RecordChannel } from './record.js';
import { SegmentSequence, type SegmentSequenceOptions } from './segment-sequence.js';
import { SyncSchedule } from './sync-schedule.js';
import { asJournalError, BUFFER_BYTES, WriteFault } from './write-fault.js';

const BATCH_RECORDS = 64;
const BATCH_MS = 5;
/** Output that arrives this soon after a write is part of a flood. */
const FLOOD_MS = 1;
/** Gathered bytes that justify a separate write. */
const GATHER_BYTES = 64 * 1024;
const RETRY_MS = 500;
/** Above this size, a record is not copied into a batch. Half the capacity of a batch's buffer. */
export const LARGE_BYTES = 128 * 1024;

/** The most severe first. */
const FAULTS = ['writing', 'syncing', 'closing', 'trimming'] as const;

export interface JournalWriterOptions extends Omit<SegmentSequenceOptions, 'onFault'> {
  /** The records of `batch` are in the file, in order and without holes. */
  readonly onWritten: (batch: WrittenBatch) => void;
  /** The same for one large record. Without this callback, large records are batched like all others. */
  readonly onStored?: (record: StoredRecord) => void;
  /**
   * The most severe current fault: writing, syncing (the journal continues), closing or removing segments (nothing is
   * lost). Null: none.
   */
  readonly onFault: (fault: JournalError | null) => void;
  /** Free bytes before each batch, see `WrittenBatch`. */
  readonly headroom?: number;
  /**
   * Records up to this one are known to be in use by clients, whatever the files contain. If the files end before it, the
   * journal continues after it: a number that clients know for one message must not be reused for another.
   */
  readonly highWaterMark?: number;
  readonly heldBytes?: number;
  readonly retryMs?: number;
  /**
   * How long output of a flood is gathered before it is written, 0 by default. One write per message, and so one system
   * call in every process down to the client, is most of the cost of a message.
   */
  readonly coalesceMs?: number;
}

interface AppendOptions {
  /** The record ends an execution: sync soon after writing it. */
  readonly durable?: boolean;
  /** A request, reply or state; while the disk is full, a few of them are worth more than much output. */
  readonly essential?: boolean;
  /** Called when the record is in the file, or immediately while writing fails. */
  readonly after?: () => void;
}

export class JournalWriter implements AsyncDisposable {
  readonly #builder: BatchBuilder;
  readonly #schedule: SyncSchedule;
  readonly #segments: SegmentSequence;
  #nextSeq = 1;
  #lastSeq = 0;
  #fault: WriteFault | null = null;
  /** Faults by kind of failed work; the first one in the order of `FAULTS` is reported. */
  readonly #faults = new Map<(typeof FAULTS)[number], JournalError>();
  #reported: JournalError | null = null;
  #retry: NodeJS.Timeout | null = null;
  #reopening: Promise<void> | null = null;
  #flushing: NodeJS.Immediate | null = null;
  #gathering: NodeJS.Timeout | null = null;
  #flushedAt = -Infinity;
  #closed: Promise<void> | null = null;

  #cuts: readonly JournalCut[] = [];
  /** The files could not be prepared for writing; this is retried before any write. */
  #unopened = false;

  private constructor(
    private readonly dir: string,
    private readonly options: JournalWriterOptions
  ) {
    this.#segments = new SegmentSequence(dir, {
      ...options,
      onFault: (work, fault) => this.#report(work, fault)
    });
    this.#builder = new BatchBuilder(options.headroom ?? 0);
    this.#schedule = new SyncSchedule(
      () => this.#segments.sync(),
      // The segments have reported which records are at risk.
      () => undefined
    );
  }

  /** Each kind of failed work has its own fault, which ends when that work succeeds. */
  #report(work: (typeof FAULTS)[number], fault: JournalError | null): void {
    if (fault === null) this.#faults.delete(work);
    else if (work === 'writing' || !this.#faults.has(work)) this.#faults.set(work, fault);
    const worst = FAULTS.map(each => this.#faults.get(each)).find(each => each !== undefined) ?? null;
    if (worst === this.#reported) return;
    this.#reported = worst;
    this.options.onFault(worst);
  }

  /**
   * Repairs and opens the journal in `dir`, or creates it. If the disk is full or read-only the writer opens anyway,
   * buffers appended records, and retries. The caller ensures that there is only one writer.
   */
  static async open(dir: string, options: JournalWriterOptions): Promise<JournalWriter> {
    const writer = new JournalWriter(dir, options);
    const failure = await writer.#open();
    if (failure !== null) {
      writer.#unopened = true;
      writer.#fail(failure);
    }
    writer.#segments.enforceQuota();
    return writer;
  }

  /** The bytes that had to be cut when the journal was opened. */
  get cuts(): readonly JournalCut[] {
    return this.#cuts;
  }

  /** The newest record in the file, 0 when there is none. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  append(
    channel: number,
    pieces: readonly Buffer[],
    { durable, essential, after }: AppendOptions = {}
  ): void {
    if (this.#closed !== null) {
      throw new JournalError('journal_closed', 'The journal has been closed; nothing can be appended.');
    }
    let bytes = 0;
    for (const piece of pieces) bytes += piece.length;
    if (bytes > MAX_PAYLOAD_BYTES) {
      after?.();
      this.append(RecordChannel.bridge, [tooLarge(bytes)], { essential: true });
      return;
    }
    const isLarge = bytes >= LARGE_BYTES && this.options.onStored !== undefined;
    if (this.#fault === null && (isLarge || !this.#builder.fits(bytes))) {
      this.#flush(); // This may be the first write that fails, and only then is the fate of this message known.
    }
    if (this.#hasFailed()) {
      after?.();
      if (this.#fault?.admits(bytes, this.#openBytes(), essential === true) === false) {
        this.#fault.missed(Date.now());
        return;
      }
    } else if (isLarge) {
      this.#appendLarge(channel, pieces, bytes, { durable, essential, after });
      return;
    }
    if (!this.#builder.fits(bytes)) this.#flush();
    const batch = this.#builder.add(this.#nextSeq++, BigInt(Date.now()) * 1_000_000n, channel, pieces, bytes);
    batch.durable ||= durable === true;
    if (after !== undefined && this.#fault === null) batch.after.push(after);
    if (batch.count >= BATCH_RECORDS || (batch.count > 1 && performance.now() - batch.openedAt > BATCH_MS)) {
      this.#flush();
    } else if (
      essential === true ||
      durable === true ||
      after !== undefined ||
      this.options.coalesceMs === undefined ||
      batch.end - batch.start > GATHER_BYTES ||
      performance.now() - this.#flushedAt > FLOOD_MS
    ) {
      this.#flushing ??= setImmediate(() => this.#flush());
    } else if (this.#flushing === null) {
      this.#gathering ??= setTimeout(() => this.#flush(), this.options.coalesceMs);
    }
  }

  /** Requires that all earlier records have been written. */
  #appendLarge(channel: number, pieces: readonly Buffer[], bytes: number, options: AppendOptions): void {
    const seq = this.#nextSeq;
    const timeMs = Date.now();
    const head = recordHead(seq, BigInt(timeMs) * 1_000_000n, channel, pieces, bytes);
    let stored: StoredRecord;
    try {
      const segment = this.#segments.for(seq, RECORD_OVERHEAD + bytes);
      const offset = segment.writePieces(seq, [head, ...pieces]) + RECORD_OVERHEAD;
      stored = { seq, timeMs, channel, pieces, segment: segment.firstSeq, offset, bytes };
    } catch (error) {
      this.#fail(asJournalError(error, 'writing'));
      this.append(channel, pieces, options); // buffered, or counted as missing
      return;
    }
    this.#nextSeq = seq + 1;
    this.#lastSeq = seq;
    this.#flushedAt = performance.now();
    this.#schedule.written(options.durable === true);
    options.after?.();
    this.options.onStored?.(stored);
  }

  /** All appended records are written and durable. Rejects with `journal_disk_full` or `journal_write_failed`. */
  async sync(): Promise<void> {
    this.#flush();
    if (this.#fault !== null) throw this.#fault.error;
    try {
      await this.#segments.sync();
    } catch (error) {
      throw asJournalError(error, 'syncing');
    }
  }

  /** Writes and syncs the remaining records. Records that cannot be written by now are lost; rejects in that case. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#flush();
    clearTimeout(this.#retry ?? undefined);
    await this.#reopening;
    if (this.#unopened) await this.#reopen();
    this.#recover();
    await this.#schedule.stop();
    await this.#segments.finish();
    if (this.#fault !== null) throw this.#fault.error;
  }

  /** Null when writing is possible. The next seq is known either way. */
  async #open(): Promise<JournalError | null> {
    let nextSeq: number;
    let failure: JournalError | null;
    try {
      const found = await repairJournal(this.dir);
      nextSeq = Math.max(found.nextSeq, (this.options.highWaterMark ?? 0) + 1);
      this.#cuts = found.cuts;
      // Numbers have no holes within a segment.
      failure = await this.#segments.reopen(nextSeq === found.nextSeq ? found.tail : null);
    } catch (error) {
      if (!(error instanceof UnrepairedError)) throw error;
      nextSeq = Math.max(error.nextSeq, (this.options.highWaterMark ?? 0) + 1);
      failure = asJournalError(error.cause, 'opening');
    }
    if (!this.#unopened) {
      this.#nextSeq = nextSeq;
      this.#lastSeq = nextSeq - 1;
    }
    return failure;
  }

  async #reopen(): Promise<void> {
    const failure = await this.#open().catch((error: unknown) => asJournalError(error, 'opening'));
    this.#unopened = failure !== null;
  }

  #hasFailed(): boolean {
    return this.#fault !== null;
  }

  #openBytes(): number {
    const open = this.#builder.open;
    return open === null ? 0 : open.end - open.start;
  }

  #flush(): void {
    if (this.#flushing !== null) {
      clearImmediate(this.#flushing);
      this.#flushing = null;
    }
    if (this.#gathering !== null) {
      clearTimeout(this.#gathering);
      this.#gathering = null;
    }
    const batch = this.#builder.close();
    if (batch === null) return;
    this.#flushedAt = performance.now();
    if (this.#fault !== null) {
      this.#fault.hold(batch);
      return;
    }
    const error = this.#write(batch);
    if (error !== null) this.#fail(error, batch);
  }

  /** Null when the batch is in the file. */
  #write(batch: PendingBatch): JournalError | null {
    try {
      const segment = this.#segments.for(batch.firstSeq, batch.end - batch.start);
      segment.write(batch.firstSeq, batch.buffer, batch.start, batch.end);
    } catch (error) {
      return asJournalError(error, 'writing');
    }
    this.#lastSeq = batch.lastSeq;
    this.#schedule.written(batch.durable);
    for (const after of batch.after) after();
    this.options.onWritten(batch);
    return null;
  }

  #fail(error: JournalError, batch?: PendingBatch): void {
    this.#fault = new WriteFault(error, this.options.heldBytes ?? BUFFER_BYTES);
    if (batch !== undefined) {
      for (const after of batch.after.splice(0)) after();
      this.#fault.hold(batch);
    }
    this.#report('writing', error);
    this.#scheduleRetry();
  }

  #scheduleRetry(): void {
    this.#retry = setTimeout(() => this.#tryAgain(), this.options.retryMs ?? RETRY_MS);
  }

  #tryAgain(): void {
    this.#reopening = this.#unopened ? this.#reopen() : null;
    const recover = (): void => {
      this.#reopening = null;
      if (this.#closed !== null) {
        return; // `close` makes its own attempt
      }
      this.#flush();
      this.#recover();
      if (this.#fault !== null) this.#scheduleRetry();
    };
    if (this.#reopening === null) recover();
    else void this.#reopening.then(recover);
  }

  /** Writes the buffered records. Writing works again when all of them, and the gap record, are in the file. */
  #recover(): void {
    const fault = this.#fault;
    if (fault === null || this.#unopened) return;
    for (let batch = fault.next; batch !== undefined; batch = fault.next) {
      if (this.#write(batch) !== null) return;
      fault.written();
    }
    const gap = fault.drainGap();
    if (gap !== null) {
      const payload = Buffer.from(JSON.stringify(gap));
      this.#builder.add(
        this.#nextSeq++,
        BigInt(Date.now()) * 1_000_000n,
        RecordChannel.bridge,
        [payload],
        payload.length
      );
      const batch = this.#builder.close();
      if (batch !== null && this.#write(batch) !== null) {
        fault.hold(batch);
        return;
      }
    }
    this.#fault = null;
    this.#report('writing', null);
  }
}

/** Replaces a message that is too large for readers to accept as a record. */
function tooLarge(bytes: number): Buffer {
  const now = Date.now();
  const reason = `A message of ${bytes} bytes exceeds the journal's limit (${MAX_PAYLOAD_BYTES}); write such data to a file.`;
  const gap: GapRecord = {
    type: 'gap',
    count: 1,
    code: 'journal_record_too_large',
    reason,
    from: now,
    to: now
  };
  return Buffer.from(JSON.stringify(gap));
}
