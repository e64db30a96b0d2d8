/** Reads one segment file forwards, in chunks, and reports how far its records are whole. */
import type { FileHandle } from 'node:fs/promises';
import { checksumMatches, probeRecord, RECORD_OVERHEAD, seqAt } from './record-codec.js';

/** The number of payload bytes to read, given the beginning of the payload; more than its length means the whole payload. */
export type NeededBytes = (beginning: Buffer) => number;

/** Large enough to keep the disk busy, small enough to bound the memory of many simultaneous readers. */
const CHUNK_BYTES = 256 * 1024;
/** How much to read of a record after one that was not read to its end. */
const BEGINNING_BYTES = 16 * 1024;

/** Whole records in one buffer: record i is `bytes[bounds[i]..bounds[i+1])`. */
export interface ScannedChunk {
  readonly bytes: Buffer;
  readonly bounds: readonly number[];
  readonly firstSeq: number;
  /** Offset of `bounds[0]` in the file. */
  readonly fileOffset: number;
  /** The chunk is only the beginning of one record, whose checksum was not checked. */
  readonly isAbridged?: true;
}

export type ScanEnd =
  | { readonly kind: 'end'; readonly offset: number; readonly seq: number; readonly rest: number }
  | { readonly kind: 'damaged'; readonly offset: number; readonly seq: number; readonly why: string };

interface ScanStart {
  /** Offset and seq of a record. */
  readonly offset: number;
  readonly seq: number;
  /** Checksums are checked from this record on; for earlier ones only lengths and numbers are. */
  readonly verifyFrom: number;
  /** Of a record larger than a chunk, only as much is read as this requires. */
  readonly needed?: NeededBytes | undefined;
}

/**
 * Yields chunks until the file ends or a record is damaged, and returns the position. `rest` counts the bytes of an
 * unfinished record at the end: torn if no process writes any more, otherwise still being written.
 */
export async function* scanSegment(
  handle: FileHandle,
  start: ScanStart
): AsyncGenerator<ScannedChunk, ScanEnd, void> {
  let { offset, seq } = start;
  /** Size of the record at `offset`, as far as known. */
  let size = RECORD_OVERHEAD;
  /** Large records mostly come in runs of the same size: then the next one is read in one call. */
  let expected = CHUNK_BYTES;
  for (;;) {
    const available = (await handle.stat()).size - offset;
    // Checks the file size first: a damaged length must not cause an allocation larger than the file.
    if (available < size) return { kind: 'end', offset, seq, rest: Math.max(available, 0) };
    const bytes = await readFully(handle, offset, Math.min(available, expected));
    const bounds = [0];
    let at = 0;
    let damage: string | null = null;
    size = RECORD_OVERHEAD;
    while (damage === null) {
      const probe = probeRecord(bytes, at);
      if (probe.kind === 'partial') {
        size = probe.needed;
        break;
      }
      damage = probe.kind === 'damaged' ? probe.why : faultOf(bytes, at, probe.end, seq, start.verifyFrom);
      if (probe.kind === 'whole' && damage === null) {
        at = probe.end;
        bounds.push(at);
        seq++;
      }
    }
    const isLarge = at === 0 && damage === null && size > bytes.length && available >= size;
    const end = isLarge ? neededEnd(bytes, start.needed) : Infinity;
    if (end <= bytes.length) {
      const wrong = wrongNumber(bytes, 0, seq);
      if (wrong !== null) return { kind: 'damaged', offset, seq, why: wrong };
      yield { bytes, bounds: [0, end], firstSeq: seq++, fileOffset: offset, isAbridged: true };
      offset += size;
      size = RECORD_OVERHEAD;
      expected = BEGINNING_BYTES;
      continue;
    }
    if (bounds.length > 1) {
      yield { bytes, bounds, firstSeq: seq - (bounds.length - 1), fileOffset: offset };
    }
    offset += at;
    if (damage !== null) return { kind: 'damaged', offset, seq, why: damage };
    if (start.needed !== undefined) {
      expected = at === 0 && bytes.length >= CHUNK_BYTES ? size : CHUNK_BYTES;
    } else expected = Math.max(CHUNK_BYTES, size, bounds.length === 2 ? at : 0);
  }
}

/** Offset in `bytes`, which begin with the record, after the part of the record to read. */
function neededEnd(bytes: Buffer, needed: NeededBytes = () => Infinity): number {
  return RECORD_OVERHEAD + needed(bytes.subarray(RECORD_OVERHEAD));
}

function faultOf(bytes: Buffer, at: number, end: number, seq: number, verifyFrom: number): string | null {
  const wrong = wrongNumber(bytes, at, seq);
  if (wrong !== null) return wrong;
  return seq >= verifyFrom && !checksumMatches(bytes, at, end) ? 'its checksum is wrong' : null;
}

function wrongNumber(bytes: Buffer, at: number, seq: number): string | null {
  const found = seqAt(bytes, at);
  return found === seq ? null : `it is numbered ${found}`;
}

async function readFully(handle: FileHandle, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await handle.read(bytes, filled, length - filled, offset + filled);
    if (bytesRead === 0) {
      break; // Truncated after its size was read: the shorter buffer ends in an unfinished record.
    }
    filled += bytesRead;
  }
  return bytes.subarray(0, filled);
}
