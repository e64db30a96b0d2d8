/**
 * Bytes of one record: `u32 length | u32 crc32c | u64 seq | u64 unix ns | u8 channel | payload`, little-endian.
 * `length` counts what follows the checksum, and the checksum covers the same bytes.
 */
import { crc32c } from './crc32c.js';
import type { JournalRecord } from './record.js';

/** length and crc32c */
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
  let checksum = crc32c(head, PREFIX_BYTES);
  for (const piece of pieces) {
    checksum = crc32c(piece, 0, piece.length, checksum);
  }
  head.writeUInt32LE(FIELD_BYTES + payloadBytes, 0);
  head.writeUInt32LE(checksum, 4);
  return head;
}

function writeFields(target: Buffer, at: number, seq: number, timeNs: bigint, channel: number): void {
  target.writeUInt32LE(seq >>> 0, at);
  target.writeUInt32LE(Math.floor(seq / 0x1_0000_0000), at + 4);
  target.writeBigUInt64LE(timeNs, at + 8);
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
  target.writeUInt32LE(crc32c(target, body, end), at + 4);
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
  if (have < PREFIX_BYTES) {
    return { kind: 'partial', needed: RECORD_OVERHEAD };
  }
  const length = bytes.readUInt32LE(at);
  if (length < FIELD_BYTES || length > MAX_RECORD_BYTES) {
    return { kind: 'damaged', why: `a length of ${length} is impossible` };
  }
  const size = PREFIX_BYTES + length;
  return have < size ? { kind: 'partial', needed: size } : { kind: 'whole', end: at + size };
}

/** Whether the checksum of the whole record at `at` is right. */
export function checksumHolds(bytes: Buffer, at: number, end: number): boolean {
  return crc32c(bytes, at + PREFIX_BYTES, end) === bytes.readUInt32LE(at + 4);
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
