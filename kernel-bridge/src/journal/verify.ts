/** Reads a whole journal, checks every checksum, and reports where it is damaged. Changes nothing, and disturbs no writer. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { RecordChannel } from './record.js';
import { listSegments, SEGMENT_HEADER_BYTES, segmentHeaderFault, type SegmentName } from './segment-file.js';
import { scanSegment } from './segment-scan.js';
import { decodeRecord } from './record-codec.js';
import { gapOf } from './record.js';

export interface SegmentReport {
  readonly file: string;
  readonly firstSeq: number;
  readonly bytes: number;
  /** Number of whole records from `firstSeq` on, before the first fault. */
  readonly records: number;
  readonly gaps: number;
  /** The first fault and its place: no record of this segment from this offset on can be read. */
  readonly fault: { readonly offset: number; readonly seq: number; readonly why: string } | null;
  /** Bytes at the end of the newest segment that are not a whole record: being written, or torn by a crash. */
  readonly unfinishedBytes: number;
}

/** Yields one report after the other, oldest segment first; memory is bounded by one chunk. */
export async function* verifySegments(
  dir: string,
  signal?: AbortSignal
): AsyncGenerator<SegmentReport, void, void> {
  const segments = await listSegments(dir);
  for (const [index, segment] of segments.entries()) {
    signal?.throwIfAborted();
    yield await verifySegment(dir, segment, segments[index + 1] ?? null, signal);
  }
}

async function verifySegment(
  dir: string,
  segment: SegmentName,
  following: SegmentName | null,
  signal: AbortSignal | undefined
): Promise<SegmentReport> {
  const handle = await open(join(dir, segment.file), 'r');
  try {
    const { size: bytes } = await handle.stat();
    const { file, firstSeq } = segment;
    const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
    const { bytesRead } = await handle.read(header, 0, SEGMENT_HEADER_BYTES, 0);
    const headerFault = segmentHeaderFault(header.subarray(0, bytesRead), firstSeq);
    if (headerFault !== null) {
      const fault = { offset: 0, seq: firstSeq, why: headerFault };
      return { file, firstSeq, bytes, records: 0, gaps: 0, fault, unfinishedBytes: 0 };
    }
    const scan = scanSegment(handle, { offset: SEGMENT_HEADER_BYTES, seq: firstSeq, verifyFrom: firstSeq });
    let gaps = 0;
    let step = await scan.next();
    for (; step.done !== true; step = await scan.next()) {
      signal?.throwIfAborted();
      const { bytes: chunk, bounds } = step.value;
      for (const [index, at] of bounds.slice(0, -1).entries()) {
        const record = decodeRecord(chunk, at, bounds[index + 1] ?? at);
        gaps += record.channel === RecordChannel.bridge && gapOf(record) !== null ? 1 : 0;
      }
    }
    const { offset, seq } = step.value;
    const rest = step.value.kind === 'end' ? step.value.rest : 0;
    const why =
      step.value.kind === 'damaged'
        ? step.value.why
        : following === null
          ? null
          : problemOf(seq, following.firstSeq, rest);
    const fault = why === null ? null : { offset, seq, why };
    return { file, firstSeq, bytes, records: seq - firstSeq, gaps, fault, unfinishedBytes: rest };
  } finally {
    await handle.close();
  }
}

/**
 * Why a segment cannot be read on; null if invalid bytes after its last record do no harm, because the next segment
 * continues from there.
 */
function problemOf(seq: number, followingSeq: number, rest: number): string | null {
  if (seq === followingSeq) return null;
  return rest > 0
    ? 'it ends inside a record'
    : `the next segment begins with record ${followingSeq}, not with ${seq}`;
}
