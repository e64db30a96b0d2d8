/**
 * Puts a gap record in the place of a damaged one, when what follows is whole. The record keeps its length and its number, so
 * everything after it keeps its place, and the positions of clients go on meaning what they meant.
 */
import type { FileHandle } from 'node:fs/promises';
import {
  checksumHolds,
  decodeRecord,
  probeRecord,
  RECORD_OVERHEAD,
  seqAt,
  writeRecord
} from './record-codec.js';
import { type GapRecord, RecordChannel } from './record.js';

/** Looked at beyond the damaged record: enough to see that the next one is whole, unless it is very large. */
const MAX_LOOK_BYTES = 64 * 1024 * 1024;

export interface DamagedRecord {
  readonly offset: number;
  readonly seq: number;
  readonly why: string;
}

/**
 * The bytes to be written at `offset` instead of the record there; null when its length cannot be trusted, that is when
 * no whole record with the next number follows, or when it is too short to say what is missing.
 */
export async function gapInPlace(
  handle: FileHandle,
  { offset, seq, why }: DamagedRecord
): Promise<Buffer | null> {
  const { size } = await handle.stat();
  const record = await recordAt(handle, offset, size);
  if (record === null) return null;
  const next = await recordAt(handle, offset + record.length, size);
  if (next === null || seqAt(next, 0) !== seq + 1 || !checksumHolds(next, 0, next.length)) return null;
  // The neighbour's: that of the damaged record is as doubtful as the rest of it.
  const { timeNs } = decodeRecord(next, 0, next.length);
  const time = Number(timeNs / 1_000_000n);
  const gap: GapRecord = {
    type: 'gap',
    count: 1,
    code: 'journal_damaged',
    reason: `Record ${seq} of the journal was damaged on the disk (${why}).`,
    from: time,
    to: time,
    fromSeq: seq,
    toSeq: seq
  };
  const text = Buffer.from(JSON.stringify(gap));
  const room = record.length - RECORD_OVERHEAD;
  if (text.length > room) return null;
  const payload = Buffer.alloc(room, ' ');
  text.copy(payload);
  const bytes = Buffer.alloc(record.length);
  writeRecord(bytes, 0, seq, timeNs, RecordChannel.bridge, [payload]);
  return bytes;
}

/** As long as its length field says; null when that cannot be. */
async function recordAt(handle: FileHandle, offset: number, size: number): Promise<Buffer | null> {
  const head = await read(handle, offset, RECORD_OVERHEAD);
  const probe = head.length < RECORD_OVERHEAD ? null : probeRecord(head, 0);
  if (probe === null || probe.kind === 'damaged') return null;
  const length = probe.kind === 'whole' ? probe.end : probe.needed;
  if (length > MAX_LOOK_BYTES || offset + length > size) return null;
  const bytes = await read(handle, offset, length);
  return bytes.length === length ? bytes : null;
}

async function read(handle: FileHandle, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  const { bytesRead } = await handle.read(bytes, 0, length, offset);
  return bytes.subarray(0, bytesRead);
}
