/**
 * Bytes of one record: `u32 length | u32 checksum | u64 seq | u64 unix ns | u8 channel | payload`, little-endian.
 * `length` counts what follows the checksum, and the checksum covers the same bytes.
 */
import { crc32, isChecksumOf } from './checksum.js';
import type { JournalRecord } from './record.js';

/** length and checksum */
const PREFIX_BYTES = 8;
/** seq, time and channel */
const FIELD_BYTES = 17;

export const RECORD_OVERHEAD = PREFIX_BYTES + FIELD_BYTES;

/** Above this a length is taken for damage. A segment holds 64 MiB, but one message larger than that is still kept. */
export const MAX_RECORD_BYTES = 512 * 1024 * 1024 - 64 * 1024;

export const MAX_PAYLOAD_BYTES = MAX_RECORD_BYTES - FIELD_BYTES;

/** What precedes the payload of a record, for a writer that writes the pieces of the payload from where they are. */
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

/** The newest time that was written, in words: records of one batch have the same, and arithmetic on a bigint costs as much as all else here. */
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

/** What `bytes[at..]` holds: a whole record, the beginning of one, or neither. */
export type RecordProbe =
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
export function checksumHolds(bytes: Buffer, at: number, end: number): boolean {
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

/** The checksum that stands before a record's bytes. */
export function checksumOfRecord(record: JournalRecord): number {
  return bytesOfBatch([record]).readUInt32LE(4);
}

export interface RecordStretch {
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** Checksum of the last record. */
  readonly checksum: number;
}

/** What `bytes` hold, when they are whole records with successive numbers and right checksums; else what is wrong. */
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
    if (!checksumHolds(bytes, at, probe.end)) return `the checksum of record ${seq} is wrong`;
    at = probe.end;
  }
  return seq === 0 ? 'there is no record in it' : { firstSeq, lastSeq: seq, checksum };
}
