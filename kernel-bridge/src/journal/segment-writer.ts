/** The segment file that is being appended to. Writes are synchronous and positional; syncing is not. */
import {
  close,
  closeSync,
  fdatasync,
  ftruncateSync,
  openSync,
  unlinkSync,
  writeSync,
  writevSync
} from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES, segmentFileName } from './segment-file.js';
import { IndexAppender, indexFileName } from './stored-index.js';

const fdatasyncAsync = promisify(fdatasync);
const closeAsync = promisify(close);

export class SegmentWriter {
  #syncing: Promise<void> = Promise.resolve();
  /** Bytes of a failed write lie behind the last record. They must go before anything is written or the file counts as whole. */
  #hasRemains = false;

  private constructor(
    readonly file: string,
    readonly firstSeq: number,
    private readonly fd: number,
    private end: number,
    private readonly index: IndexAppender
  ) {}

  /** A new segment. Leaves no file behind when its header cannot be written. */
  static create(dir: string, firstSeq: number): SegmentWriter {
    const file = join(dir, segmentFileName(firstSeq));
    const fd = openSync(file, 'wx', 0o600);
    const index = new IndexAppender(join(dir, indexFileName(firstSeq)), 0);
    const segment = new SegmentWriter(file, firstSeq, fd, 0, index);
    try {
      segment.#append(encodeSegmentHeader(firstSeq), 0, SEGMENT_HEADER_BYTES);
    } catch (error) {
      closeSync(fd);
      unlinkSync(file);
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
   * Appends `buffer[from..to)`, which begins with record `seq`. When it throws, the segment is as long as before: what the
   * failed write left in the file is cut off again, at the latest before the next one.
   */
  write(seq: number, buffer: Buffer, from: number, to: number): void {
    const offset = this.end;
    this.#append(buffer, from, to);
    this.index.written({ seq, offset });
  }

  /** As `write`, for one record in pieces, none of which is copied. Returns where in the file it begins. */
  writePieces(seq: number, pieces: readonly Buffer[]): number {
    const offset = this.end;
    this.#whole(() => {
      let at = offset;
      for (let left = pieces; left.length > 0;) {
        const written = writevSync(this.fd, left, at);
        at += written;
        left = behind(left, written);
      }
      this.end = at;
    });
    this.index.written({ seq, offset });
    return offset;
  }

  #append(buffer: Buffer, from: number, to: number): void {
    this.#whole(() => {
      let at = from;
      while (at < to) {
        at += writeSync(this.fd, buffer, at, to - at, this.end + at - from);
      }
      this.end += to - from;
    });
  }

  /** Megabytes of a half-written record would read as damage, also after the fault has cleared. */
  #whole(write: () => void): void {
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
      if (this.#hasRemains) {
        ftruncateSync(this.fd, this.end);
      }
      this.#hasRemains = false;
    } catch {
      // The disk refuses this too; it is tried again before the next write, and at the end.
    }
  }

  sync(): Promise<void> {
    this.#syncing = this.#syncing.catch(() => undefined).then(() => fdatasyncAsync(this.fd));
    return this.#syncing;
  }

  /** The last sync and the end. The descriptor is closed even when the sync fails. */
  async finish(): Promise<void> {
    this.#cutRemains();
    try {
      await this.sync();
    } finally {
      await closeAsync(this.fd);
    }
  }
}

/** The pieces without their first `bytes`. */
function behind(pieces: readonly Buffer[], bytes: number): Buffer[] {
  const left: Buffer[] = [];
  let skip = bytes;
  for (const piece of pieces) {
    if (skip < piece.length) {
      left.push(skip === 0 ? piece : piece.subarray(skip));
    }
    skip = Math.max(0, skip - piece.length);
  }
  return left;
}
