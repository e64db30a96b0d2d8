/** The segment file that is being appended to. Writes are synchronous and positional; syncing is not. */
import { close, closeSync, fdatasync, openSync, unlinkSync, writeSync, writevSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES, segmentFileName } from './segment-file.js';
import { IndexAppender, indexFileName } from './stored-index.js';

const fdatasyncAsync = promisify(fdatasync);
const closeAsync = promisify(close);

export class SegmentWriter {
  #syncing: Promise<void> = Promise.resolve();

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
   * Appends `buffer[from..to)`, which begins with record `seq`. When it throws, the segment is as long as before for the writer: what a failed write left
   * on disk is overwritten by the next one, which begins with the same bytes.
   */
  write(seq: number, buffer: Buffer, from: number, to: number): void {
    const offset = this.end;
    this.#append(buffer, from, to);
    this.index.written({ seq, offset });
  }

  /** As `write`, for one record in pieces, none of which is copied. Returns where in the file it begins. */
  writePieces(seq: number, pieces: readonly Buffer[]): number {
    const offset = this.end;
    let at = offset;
    for (let left = pieces; left.length > 0;) {
      const written = writevSync(this.fd, left, at);
      at += written;
      left = behind(left, written);
    }
    this.end = at;
    this.index.written({ seq, offset });
    return offset;
  }

  #append(buffer: Buffer, from: number, to: number): void {
    let at = from;
    while (at < to) {
      at += writeSync(this.fd, buffer, at, to - at, this.end + at - from);
    }
    this.end += to - from;
  }

  sync(): Promise<void> {
    this.#syncing = this.#syncing.catch(() => undefined).then(() => fdatasyncAsync(this.fd));
    return this.#syncing;
  }

  /** The last sync and the end. The descriptor is closed even when the sync fails. */
  async finish(): Promise<void> {
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

/** Makes the names in a folder durable. */
export async function syncFolder(dir: string): Promise<void> {
  const handle = await open(dir, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
