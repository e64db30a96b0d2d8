/**
 * The segment file that is being appended to. Writes are synchronous and positional; syncing is not.
 *
 * A failed sync is not repeated: the system reports a failure once, counts the pages as clean, and the next sync succeeds
 * without them. So records written since the last good sync stay in memory, and are written to another segment
 * (`rewritten`).
 */
import {
  close,
  closeSync,
  fdatasync,
  fstatSync,
  ftruncateSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
  writevSync
} from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES, segmentFileName } from './segment-file.js';
import { syncFolder } from '@tpulab/platform/write-atomically.js';
import { IndexAppender, indexFileName } from './stored-index.js';

const fdatasyncAsync = promisify(fdatasync);
const closeAsync = promisify(close);

/**
 * Syncs happen ten times per second; if they are so slow that this is not enough, the oldest records are dropped from
 * memory.
 */
const UNSYNCED_BYTES = 64 * 1024 * 1024;

/** Records that are written, but not known to be on the disk. */
interface Unsynced {
  /** seq of the first record. */
  readonly seq: number;
  readonly pieces: readonly Buffer[];
  readonly bytes: number;
}

export class SegmentWriter {
  #syncing: Promise<void> = Promise.resolve();
  /**
   * Bytes of a failed write follow the last record. They must be removed before the next write, and before the file counts
   * as whole.
   */
  #hasRemains = false;
  readonly #unsynced: Unsynced[] = [];
  #unsyncedBytes = 0;
  /** Nothing of this file is known to be on the disk, not even its header. */
  #isNew = false;
  /** The first record that had to be dropped from memory when a sync failed. */
  #firstAbandonedSeq: number | null = null;
  /** Why a sync failed; from then on the file's contents are not trusted. */
  #failure: Error | null = null;
  #rewriting: Promise<SegmentWriter> | null = null;

  private constructor(
    readonly file: string,
    readonly firstSeq: number,
    private readonly fd: number,
    private end: number,
    private readonly index: IndexAppender
  ) {}

  /** Creates a segment. A leftover without a header, which the disk refused to remove, is reused. */
  static create(dir: string, firstSeq: number): SegmentWriter {
    const file = join(dir, segmentFileName(firstSeq));
    const fd = openNew(file);
    const index = new IndexAppender(join(dir, indexFileName(firstSeq)), 0);
    const segment = new SegmentWriter(file, firstSeq, fd, 0, index);
    segment.#isNew = true;
    try {
      segment.#append(encodeSegmentHeader(firstSeq), 0, SEGMENT_HEADER_BYTES);
    } catch (error) {
      closeSync(fd);
      try {
        rmSync(file);
      } catch {
        // The leftover is reused at the next attempt; the reason of the failed write is the better error.
      }
      throw error;
    }
    return segment;
  }

  /** Continues a segment that ends at byte `end`. */
  static async reopen(file: string, firstSeq: number, end: number): Promise<SegmentWriter> {
    const fd = openSync(file, 'r+');
    return new SegmentWriter(
      file,
      firstSeq,
      fd,
      end,
      await IndexAppender.reopen(dirname(file), firstSeq, end)
    );
  }

  get bytes(): number {
    return this.end;
  }

  /**
   * Appends `buffer[from..to)`, which begins with record `seq`. If it throws, the segment has its earlier length: the
   * remains of the failed write in the file are cut off, at the latest before the next write.
   */
  write(seq: number, buffer: Buffer, from: number, to: number): void {
    const offset = this.end;
    this.#append(buffer, from, to);
    this.#remember(seq, [buffer.subarray(from, to)], to - from);
    this.index.written({ seq, offset });
  }

  /** Like `write`, for one record in pieces, none of which is copied. Returns its offset in the file. */
  writePieces(seq: number, pieces: readonly Buffer[]): number {
    const offset = this.end;
    this.#writeOrTruncate(() => {
      let at = offset;
      for (let left = pieces; left.length > 0;) {
        const written = writevSync(this.fd, left, at);
        at += written;
        left = piecesAfter(left, written);
      }
      this.end = at;
    });
    this.#remember(seq, pieces, this.end - offset);
    this.index.written({ seq, offset });
    return offset;
  }

  #append(buffer: Buffer, from: number, to: number): void {
    this.#writeOrTruncate(() => {
      let at = from;
      while (at < to) at += writeSync(this.fd, buffer, at, to - at, this.end + at - from);
      this.end += to - from;
    });
  }

  /** Megabytes of a half-written record would be read as damage, even after the fault is over. */
  #writeOrTruncate(write: () => void): void {
    if (this.#hasRemains) {
      ftruncateSync(this.fd, this.end);
      this.#hasRemains = false;
    }
    try {
      write();
    } catch (error) {
      this.#hasRemains = true;
      this.#cutRemains();
      throw error;
    }
  }

  #cutRemains(): void {
    try {
      if (this.#hasRemains) ftruncateSync(this.fd, this.end);
      this.#hasRemains = false;
    } catch {
      // The disk refuses to truncate too; this is retried before the next write, and at the end.
    }
  }

  #remember(seq: number, pieces: readonly Buffer[], bytes: number): void {
    this.#unsynced.push({ seq, pieces, bytes });
    this.#unsyncedBytes += bytes;
    while (this.#unsyncedBytes > UNSYNCED_BYTES && this.#unsynced.length > 1) {
      const oldest = this.#unsynced.shift();
      this.#unsyncedBytes -= oldest?.bytes ?? 0;
      this.#firstAbandonedSeq ??= oldest?.seq ?? null;
    }
  }

  sync(): Promise<void> {
    this.#syncing = this.#syncing
      .catch(() => undefined)
      .then(async () => {
        if (this.#failure !== null) throw this.#failure;
        // Records written during this sync may be too late for it.
        const last = this.#unsynced.at(-1);
        try {
          await fdatasyncAsync(this.fd);
        } catch (error) {
          this.#failure = error as Error;
          throw error;
        }
        this.#isNew = false;
        this.#firstAbandonedSeq = null;
        const count = last === undefined ? 0 : this.#unsynced.indexOf(last) + 1;
        for (const { bytes } of this.#unsynced.splice(0, count)) this.#unsyncedBytes -= bytes;
      });
    return this.#syncing;
  }

  /** After a failed sync: the first record that may be missing on the disk. */
  get atRiskFrom(): number {
    return this.#firstAbandonedSeq ?? this.#unsynced[0]?.seq ?? this.firstSeq;
  }

  /** The first record that cannot be rewritten, because too much was written since the last good sync; null: none. */
  get firstAbandonedSeq(): number | null {
    return this.#firstAbandonedSeq;
  }

  /**
   * After a failed sync: writes the records that may be missing on the disk to another segment, which is durable when this
   * resolves. `instead` is called in the turn in which that segment replaces this one. Readers find a record in the newest
   * segment that has it.
   */
  rewritten(instead: (next: SegmentWriter) => void): Promise<SegmentWriter> {
    this.#rewriting ??= this.#rewrite(instead).finally(() => (this.#rewriting = null));
    return this.#rewriting;
  }

  async #rewrite(instead: (next: SegmentWriter) => void): Promise<SegmentWriter> {
    const dir = dirname(this.file);
    const firstSeq =
      this.#isNew && this.#firstAbandonedSeq === null
        ? this.firstSeq
        : (this.#unsynced[0]?.seq ?? this.firstSeq);
    if (this.#unsynced.length === 0 && !this.#isNew) {
      // All records had reached the disk before.
      this.#failure = null;
      return this;
    }
    const draft = `${this.file}.rewritten`;
    const fd = openSync(draft, 'w', 0o600);
    const file = join(dir, segmentFileName(firstSeq));
    const next = new SegmentWriter(
      file,
      firstSeq,
      fd,
      0,
      new IndexAppender(join(dir, indexFileName(firstSeq)), 0)
    );
    next.#isNew = true;
    try {
      next.#append(encodeSegmentHeader(firstSeq), 0, SEGMENT_HEADER_BYTES);
      const written = this.#unsynced.length;
      for (const { seq, pieces } of this.#unsynced) next.writePieces(seq, pieces);
      await next.sync();
      for (const { seq, pieces } of this.#unsynced.slice(written)) next.writePieces(seq, pieces);
      renameSync(draft, file);
    } catch (error) {
      closeSync(fd);
      rmSync(draft, { force: true });
      throw error;
    }
    instead(next);
    await closeAsync(this.fd).catch(() => undefined);
    await syncFolder(dir);
    return next;
  }

  /** The last sync and the close. If the sync fails, the file stays open for `rewritten`, or `abandon`. */
  async finish(): Promise<void> {
    this.#cutRemains();
    await this.#rewriting?.catch(() => undefined);
    await this.sync();
    await closeAsync(this.fd);
  }

  /** Closes the file although it may not be on the disk. */
  abandon(): void {
    closeSync(this.fd);
  }
}

/** @throws when a segment of this name exists and is not empty */
function openNew(file: string): number {
  try {
    return openSync(file, 'wx', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    const fd = openSync(file, 'r+');
    if (fstatSync(fd).size <= SEGMENT_HEADER_BYTES) {
      ftruncateSync(fd, 0);
      return fd;
    }
    closeSync(fd);
    throw error;
  }
}

/** The pieces without their first `bytes` bytes. */
function piecesAfter(pieces: readonly Buffer[], bytes: number): Buffer[] {
  const left: Buffer[] = [];
  let skip = bytes;
  for (const piece of pieces) {
    if (skip < piece.length) left.push(skip === 0 ? piece : piece.subarray(skip));
    skip = Math.max(0, skip - piece.length);
  }
  return left;
}
