/**
 * Bytes of one record: `u32 length | u32 checksum | u64 seq | u64 unix ns | u8 channel | payload`, little-endian.
 * `length` counts the bytes after the checksum, and the checksum covers the same bytes.
 */
import type { JournalRecord } from './record.js';

/** length and checksum */
const PREFIX_BYTES = 8;
/** seq, time and channel */
const FIELD_BYTES = 17;

export const RECORD_OVERHEAD = PREFIX_BYTES + FIELD_BYTES;

/** A greater length counts as damage. A segment has 64 MiB, but a single larger message is still stored. */
export const MAX_RECORD_BYTES = 512 * 1024 * 1024 - 64 * 1024;

export const MAX_PAYLOAD_BYTES = MAX_RECORD_BYTES - FIELD_BYTES;

/** The bytes before the payload of a record, for a writer that writes the pieces of the payload without copying them. */
export function recordHead(
  seq: number,
  timeNs: bigint,
  channel: number,
  pieces: readonly Buffer[],
  payloadBytes: number
): Buffer {
  const head = Buffer.allocUnsafe(RECORD_OVERHEAD);
  writeFields(head, PREFIX_BYTES, seq, timeNs, channel);
  let checksum = crc32(head, PREFIX_BYTES);
  for (const piece of pieces) checksum = crc32(piece, 0, piece.length, checksum);
  head.writeUInt32LE(FIELD_BYTES + payloadBytes, 0);
  head.writeUInt32LE(checksum, 4);
  return head;
}

/**
 * The time that was written last, as two words: records of one batch share it, and bigint arithmetic costs as much as
 * everything else here.
 */
const stamp = { timeNs: 0n, low: 0, high: 0 };

function writeFields(target: Buffer, at: number, seq: number, timeNs: bigint, channel: number): void {
  target.writeUInt32LE(seq >>> 0, at);
  target.writeUInt32LE(Math.floor(seq / 0x1_0000_0000), at + 4);
  if (timeNs !== stamp.timeNs) {
    stamp.timeNs = timeNs;
    stamp.low = Number(timeNs & 0xffff_ffffn);
    stamp.high = Number(timeNs >> 32n);
  }
  target.writeUInt32LE(stamp.low, at + 8);
  target.writeUInt32LE(stamp.high, at + 12);
  target[at + 16] = channel;
}

/** Writes a record at `at`; `target` must have room for `RECORD_OVERHEAD` and the pieces. Returns its end. */
export function writeRecord(
  target: Buffer,
  at: number,
  seq: number,
  timeNs: bigint,
  channel: number,
  pieces: readonly Buffer[]
): number {
  const body = at + PREFIX_BYTES;
  writeFields(target, body, seq, timeNs, channel);
  let end = at + RECORD_OVERHEAD;
  for (const piece of pieces) {
    target.set(piece, end);
    end += piece.length;
  }
  target.writeUInt32LE(end - body, at);
  target.writeUInt32LE(crc32(target, body, end), at + 4);
  return end;
}

/** What is at `bytes[at..]`: a whole record, the beginning of one, or neither. */
type RecordProbe =
  | { readonly kind: 'whole'; readonly end: number }
  | { readonly kind: 'partial'; readonly needed: number }
  | { readonly kind: 'damaged'; readonly why: string };

/** Finds the end of the record at `at` from its length alone. `needed` is the size of the record, as far as known. */
export function probeRecord(bytes: Buffer, at: number): RecordProbe {
  const have = bytes.length - at;
  if (have < PREFIX_BYTES) return { kind: 'partial', needed: RECORD_OVERHEAD };
  const length = bytes.readUInt32LE(at);
  if (length < FIELD_BYTES || length > MAX_RECORD_BYTES) {
    return { kind: 'damaged', why: `a length of ${length} is impossible` };
  }
  const size = PREFIX_BYTES + length;
  return have < size ? { kind: 'partial', needed: size } : { kind: 'whole', end: at + size };
}

/** Whether the checksum of the whole record at `at` is right. */
export function checksumMatches(bytes: Buffer, at: number, end: number): boolean {
  return isChecksumOf(bytes.readUInt32LE(at + 4), bytes, at + PREFIX_BYTES, end);
}

export function seqAt(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at + PREFIX_BYTES + 4) * 0x1_0000_0000 + bytes.readUInt32LE(at + PREFIX_BYTES);
}

/** The whole record at `at`; its payload is a view into `bytes`. */
export function decodeRecord(bytes: Buffer, at: number, end: number): JournalRecord {
  return {
    seq: seqAt(bytes, at),
    timeNs: bytes.readBigUInt64LE(at + PREFIX_BYTES + 8),
    channel: bytes.readUInt8(at + PREFIX_BYTES + 16),
    payload: bytes.subarray(at + RECORD_OVERHEAD, end)
  };
}

/** The bytes of a batch of `JournalReader.readBatches`, whose payloads are views into one chunk of the file. */
export function bytesOfBatch(batch: readonly JournalRecord[]): Buffer {
  const [first, last] = [batch[0], batch.at(-1)];
  if (first === undefined || last === undefined) return Buffer.alloc(0);
  const start = first.payload.byteOffset - RECORD_OVERHEAD;
  const end = last.payload.byteOffset + last.payload.length;
  return Buffer.from(first.payload.buffer, start, end - start);
}

/** The checksum that precedes a record's bytes. */
export function checksumOfRecord(record: JournalRecord): number {
  return bytesOfBatch([record]).readUInt32LE(4);
}

export interface RecordStretch {
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** Checksum of the last record. */
  readonly checksum: number;
}

/** The range in `bytes`, if they are whole records with consecutive numbers and right checksums; otherwise the error. */
export function checkRange(bytes: Buffer): RecordStretch | string {
  let at = 0;
  let firstSeq = 0;
  let seq = 0;
  let checksum = 0;
  while (at < bytes.length) {
    const probe = probeRecord(bytes, at);
    if (probe.kind !== 'whole') return probe.kind === 'damaged' ? probe.why : 'it ends inside a record';
    const found = seqAt(bytes, at);
    if (seq !== 0 && found !== seq + 1) return `record ${found} follows record ${seq}`;
    seq = found;
    firstSeq ||= found;
    checksum = bytes.readUInt32LE(at + 4);
    if (!checksumMatches(bytes, at, probe.end)) return `the checksum of record ${seq} is wrong`;
    at = probe.end;
  }
  return seq === 0 ? 'there is no record in it' : { firstSeq, lastSeq: seq, checksum };
}

/* eslint-disable @typescript-eslint/no-non-null-assertion -- every index is masked to its table or below the loop bound */
/**
 * The checksum of a record: CRC-32, as zlib computes it. In segments of version 1 it is CRC-32C.
 *
 * zlib's native code takes 0.2 ms per MB on Node 20, a table in TypeScript 0.7 ms, but each native call costs 100 ns and
 * more, so short data is summed by table (ns, table / zlib: 64 B 66 / 231, 256 B 248 / 243, 700 B 568 / 438, 4 KB 3,225 /
 * 979). Most pieces of a small record are short.
 */
import { crc32 as crc32OfZlib } from 'node:zlib';

const CRC_32 = makeTables(0xedb88320);
/** Castagnoli, as in iSCSI; created at its first use. */
let castagnoli: Int32Array | null = null;
const LONG_BYTES = 256;

/** CRC-32 of `bytes[start..end)` as an unsigned 32-bit number; `before` is the CRC of the preceding bytes. */
export function crc32(bytes: Uint8Array, start = 0, end = bytes.length, before = 0): number {
  return end - start < LONG_BYTES
    ? ~crcOfBlocks(CRC_32, bytes, start, end, ~before) >>> 0
    : crc32OfZlib(bytes.subarray(start, end), before);
}

/** CRC-32C of `bytes[start..end)`: for segment headers, and for records in segments of version 1. */
export function crc32c(bytes: Uint8Array, start = 0, end = bytes.length): number {
  castagnoli ??= makeTables(0x82f63b78);
  return ~crcOfBlocks(castagnoli, bytes, start, end, -1) >>> 0;
}

/** Whether `checksum` matches `bytes[start..end)`, for a record of either version. */
export function isChecksumOf(checksum: number, bytes: Uint8Array, start: number, end: number): boolean {
  return crc32(bytes, start, end) === checksum || crc32c(bytes, start, end) === checksum;
}

/** Inverts neither its input nor its result. Sixteen bytes per iteration. */
function crcOfBlocks(t: Int32Array, bytes: Uint8Array, start: number, end: number, before: number): number {
  let crc = before;
  let at = start;
  for (const wholeEnd = start + ((end - start) & ~15); at < wholeEnd; at += 16) {
    crc ^= bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    crc =
      t[3840 + (crc & 255)]! ^
      t[3584 + ((crc >>> 8) & 255)]! ^
      t[3328 + ((crc >>> 16) & 255)]! ^
      t[3072 + (crc >>> 24)]! ^
      t[2816 + bytes[at + 4]!]! ^
      t[2560 + bytes[at + 5]!]! ^
      t[2304 + bytes[at + 6]!]! ^
      t[2048 + bytes[at + 7]!]! ^
      t[1792 + bytes[at + 8]!]! ^
      t[1536 + bytes[at + 9]!]! ^
      t[1280 + bytes[at + 10]!]! ^
      t[1024 + bytes[at + 11]!]! ^
      t[768 + bytes[at + 12]!]! ^
      t[512 + bytes[at + 13]!]! ^
      t[256 + bytes[at + 14]!]! ^
      t[bytes[at + 15]!]!;
  }
  for (; at < end; at++) crc = (crc >>> 8) ^ t[(crc ^ bytes[at]!) & 255]!;
  return crc;
}

/** Tables for a polynomial with its bits reversed. Table k (at 256 * k) advances a byte by k further zero bytes. */
function makeTables(polynomial: number): Int32Array {
  const tables = new Int32Array(16 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1;
    tables[byte] = crc;
  }
  for (let index = 256; index < tables.length; index++) {
    const previous = tables[index - 256]!;
    tables[index] = (previous >>> 8) ^ tables[previous & 255]!;
  }
  return tables;
}
