/**
 * `SEQ.idx` beside a segment: the offsets of some of its records, sixteen bytes each (u64 seq, u64 offset, little-endian),
 * added by the writer as the segment grows. It is a hint that saves a reader the scan of 64 MiB: an entry counts only if
 * its record is found at its offset, so a missing, torn or outdated file costs only time.
 */
import { appendFileSync, truncateSync } from 'node:fs';
import { type FileHandle, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checksumMatches, probeRecord, RECORD_OVERHEAD, seqAt } from './record-codec.js';

const ENTRY_BYTES = 16;
/** A segment with one large record has few entries; a larger file is not our index. */
const MAX_FILE_BYTES = 1024 * 1024;
/** A larger record is not worth reading just to verify an entry. */
const MAX_CHECKED_BYTES = 1024 * 1024;

export function indexFileName(firstSeq: number): string {
  return `${String(firstSeq).padStart(20, '0')}.idx`;
}

/** The writer's part. Failures do not matter: the index ends, the journal continues. */
export class IndexAppender {
  #last: number;
  #isDead = false;

  constructor(
    private readonly file: string,
    from: number
  ) {
    this.#last = from;
  }

  /** For a segment that continues at byte `end`: entries beyond it belong to records that were cut off. */
  static async reopen(dir: string, firstSeq: number, end: number): Promise<IndexAppender> {
    const file = join(dir, indexFileName(firstSeq));
    const entries = await readStoredIndex(dir, firstSeq);
    const valid = entries.filter(({ offset }) => offset < end);
    const appender = new IndexAppender(file, valid.at(-1)?.offset ?? 0);
    try {
      truncateSync(file, valid.length * ENTRY_BYTES);
    } catch (error) {
      appender.#isDead = (error as NodeJS.ErrnoException).code !== 'ENOENT';
    }
    return appender;
  }

  /** A record with this seq was written at `offset`. */
  written({ seq, offset }: IndexEntry): void {
    if (this.#isDead || offset < this.#last + INDEX_SPACING_BYTES) return;
    const entry = Buffer.allocUnsafe(ENTRY_BYTES);
    entry.writeBigUInt64LE(BigInt(seq), 0);
    entry.writeBigUInt64LE(BigInt(offset), 8);
    this.#last = offset;
    try {
      appendFileSync(this.file, entry, { mode: 0o600 });
    } catch {
      this.#isDead = true;
    }
  }
}

/** The entries as long as they increase. */
export async function readStoredIndex(dir: string, firstSeq: number): Promise<IndexEntry[]> {
  const bytes = await readFile(join(dir, indexFileName(firstSeq))).catch(() => Buffer.alloc(0));
  const entries: IndexEntry[] = [];
  let last: IndexEntry = { seq: firstSeq, offset: 0 };
  const end = Math.min(bytes.length, MAX_FILE_BYTES) - ENTRY_BYTES;
  for (let at = 0; at <= end; at += ENTRY_BYTES) {
    const entry = { seq: Number(bytes.readBigUInt64LE(at)), offset: Number(bytes.readBigUInt64LE(at + 8)) };
    if (entry.seq <= last.seq || entry.offset <= last.offset) break;
    entries.push(entry);
    last = entry;
  }
  return entries;
}

/** Whether the entry's record exists, whole and with a right checksum. */
export async function isEntryTrue(handle: FileHandle, { seq, offset }: IndexEntry): Promise<boolean> {
  let bytes = await readAt(handle, offset, RECORD_OVERHEAD);
  const probe = probeRecord(bytes, 0);
  if (probe.kind === 'damaged' || bytes.length < RECORD_OVERHEAD || seqAt(bytes, 0) !== seq) return false;
  const size = probe.kind === 'partial' ? probe.needed : probe.end;
  if (size > MAX_CHECKED_BYTES) return false;
  bytes = await readAt(handle, offset, size);
  return bytes.length === size && checksumMatches(bytes, 0, size);
}

async function readAt(handle: FileHandle, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(length);
  const { bytesRead } = await handle.read(bytes, 0, length, offset);
  return bytes.subarray(0, bytesRead);
}

/** One entry per this many bytes: 256 entries for a full segment. */
const INDEX_SPACING_BYTES = 256 * 1024;

interface IndexEntry {
  readonly seq: number;
  readonly offset: number;
}

export class SparseIndex {
  readonly #entries: IndexEntry[];

  /** `further` entries increase in both fields, after `first`. */
  constructor(first: IndexEntry, further: readonly IndexEntry[] = []) {
    this.#entries = [first, ...further];
  }

  /** Ignored unless it is far enough after the last entry; entries are only added in order. */
  add(entry: IndexEntry): void {
    const last = this.#entries.at(-1);
    if (last === undefined || entry.offset >= last.offset + INDEX_SPACING_BYTES) this.#entries.push(entry);
  }

  /** The last entry at or before `seq`; the first entry when `seq` is older than the segment. */
  floor(seq: number): IndexEntry {
    let low = 0;
    let high = this.#entries.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.#entries[middle]?.seq ?? Infinity) <= seq) low = middle;
      else high = middle - 1;
    }
    return this.#entries[low] ?? { seq, offset: 0 };
  }
}
