/** Records encoded one after another into one buffer, so that writing and pushing them are one operation each. */
import { RECORD_OVERHEAD, writeRecord } from './record-codec.js';

/** A buffer lives as long as any view on it; small buffers keep that memory small. */
const SLAB_BYTES = 256 * 1024;

export interface WrittenBatch {
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** The records are `buffer[start..end)`; the `headroom` bytes before `start` are free for a frame header. */
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
}

/** A large record that was written separately, without a copy of its pieces. */
export interface StoredRecord {
  readonly seq: number;
  readonly timeMs: number;
  readonly channel: number;
  readonly pieces: readonly Buffer[];
  /** The segment by its first record, and the start and length of the payload in its file. */
  readonly segment: number;
  readonly offset: number;
  readonly bytes: number;
}

export interface PendingBatch extends WrittenBatch {
  end: number;
  lastSeq: number;
  count: number;
  /** One of its records ends an execution. */
  durable: boolean;
  readonly openedAt: number;
  /** Called in order once the records are in the file. */
  readonly after: (() => void)[];
}

/** Cuts batches from slabs. One batch is open at a time. */
export class BatchBuilder {
  #slab: Buffer = Buffer.alloc(0);
  #used = 0;
  #open: PendingBatch | null = null;

  constructor(private readonly headroom: number) {}

  get open(): PendingBatch | null {
    return this.#open;
  }

  /** False: the open batch has no room, and must be closed first. */
  fits(payloadBytes: number): boolean {
    return this.#open === null || this.#slab.length - this.#open.end >= RECORD_OVERHEAD + payloadBytes;
  }

  add(
    seq: number,
    timeNs: bigint,
    channel: number,
    pieces: readonly Buffer[],
    payloadBytes: number
  ): PendingBatch {
    const batch = (this.#open ??= this.#begin(seq, RECORD_OVERHEAD + payloadBytes));
    batch.end = writeRecord(batch.buffer, batch.end, seq, timeNs, channel, pieces);
    batch.lastSeq = seq;
    batch.count++;
    return batch;
  }

  close(): PendingBatch | null {
    const batch = this.#open;
    if (batch !== null) {
      this.#used = batch.end;
      this.#open = null;
    }
    return batch;
  }

  #begin(firstSeq: number, recordBytes: number): PendingBatch {
    const needed = this.headroom + recordBytes;
    if (this.#slab.length - this.#used < needed) {
      this.#slab = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, needed));
      this.#used = 0;
    }
    const start = this.#used + this.headroom;
    return {
      firstSeq,
      lastSeq: firstSeq,
      buffer: this.#slab,
      start,
      end: start,
      count: 0,
      durable: false,
      openedAt: performance.now(),
      after: []
    };
  }
}
