/**
 * Opens a journal after a possible crash. A bad record of the last segment that is followed by whole ones is replaced by a
 * gap record; at any other bad record the journal is cut. The removed bytes are kept in a `*.damaged` file beside it,
 * because they are the only evidence of what happened.
 */
import { type FileHandle, mkdir, open, rename, rm, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import {
  isOfNewestVersion,
  listSegments,
  SEGMENT_HEADER_BYTES,
  segmentHeaderFault,
  type SegmentName
} from './segment-file.js';
import { type ScanEnd, scanSegment } from './segment-scan.js';
import { syncFolder } from '@tpulab/platform/write-atomically.js';
import { seqAfterTrimmed } from './journal-trim.js';
import {
  checksumMatches,
  decodeRecord,
  probeRecord,
  RECORD_OVERHEAD,
  seqAt,
  writeRecord
} from './record-codec.js';
import { type GapRecord, RecordChannel } from './record.js';
import { ifMissing } from '@tpulab/platform/missing-files.js';

export interface JournalCut {
  readonly segment: string;
  /** The file with the damaged bytes. */
  readonly damagedFile: string;
  readonly damagedBytes: number;
  readonly why: string;
  /**
   * The record that a gap record has replaced, with whole records after it; null when everything from the damage on was
   * cut.
   */
  readonly replacedSeq: number | null;
}

export interface OpenedJournal {
  readonly nextSeq: number;
  /** The segment to continue, null when a new one must be created. */
  readonly tail: { readonly file: string; readonly firstSeq: number; readonly bytes: number } | null;
  /** The bytes that had to be cut; empty for a journal that was closed normally. */
  readonly cuts: readonly JournalCut[];
}

/**
 * The journal was read to its end, but the damage there could not be cut, or the folder could not be created: a full or
 * read-only disk.
 */
export class UnrepairedError extends Error {
  override readonly name = 'UnrepairedError';

  constructor(
    /** The number after the last record that remains when the journal can be repaired. */
    readonly nextSeq: number,
    options: ErrorOptions
  ) {
    super('The journal cannot be prepared for writing.', options);
  }
}

/** Must not run while a writer has the journal open. Rejects with `UnrepairedError` when it cannot write. */
export async function repairJournal(dir: string): Promise<OpenedJournal> {
  // Everything is read before any write: the next number must be right even on a disk that refuses writes.
  const { nextSeq, tail, repairs } = await planRepair(dir);
  const cuts: JournalCut[] = [];
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    for (const repair of repairs) cuts.push(await repair());
  } catch (cause) {
    throw new UnrepairedError(nextSeq, { cause });
  }
  return { nextSeq, tail, cuts };
}

type Repair = () => Promise<JournalCut>;

interface RepairPlan extends Omit<OpenedJournal, 'cuts'> {
  readonly repairs: readonly Repair[];
}

/** Only plans: writes nothing. */
async function planRepair(dir: string): Promise<RepairPlan> {
  const segments = await listSegments(dir);
  const repairs: Repair[] = [];
  let nextSeq = 1;
  for (let segment = segments.pop(); segment !== undefined; segment = segments.pop()) {
    const tail = await planSegment(dir, segment, repairs);
    if (tail !== null) {
      return {
        nextSeq: tail.nextSeq,
        tail: tail.canAppend ? { file: tail.file, firstSeq: segment.firstSeq, bytes: tail.bytes } : null,
        repairs
      };
    }
    // The segment's header was never completed, so it has no records: the previous segment is the last one.
    nextSeq = segment.firstSeq;
  }
  return { nextSeq: Math.max(nextSeq, await seqAfterTrimmed(dir)), tail: null, repairs };
}

async function planSegment(
  dir: string,
  { file: segment, firstSeq }: SegmentName,
  repairs: Repair[]
): Promise<{ file: string; bytes: number; nextSeq: number; canAppend: boolean } | null> {
  const file = join(dir, segment);
  const handle = await open(file, 'r');
  try {
    const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
    const { bytesRead } = await handle.read(header, 0, SEGMENT_HEADER_BYTES, 0);
    const fault = segmentHeaderFault(header.subarray(0, bytesRead), firstSeq);
    const { size } = await handle.stat();
    if (fault !== null) {
      repairs.push(() => moveDamaged(dir, segment, size, fault));
      return null;
    }
    let end = await endOfCompleteRecords(handle, { offset: SEGMENT_HEADER_BYTES, seq: firstSeq });
    for (let gap = await gapFor(handle, end); gap !== null; gap = await gapFor(handle, end)) {
      const { offset, seq, bytes, why } = gap;
      const part = { segment, offset, end: offset + bytes.length, why };
      repairs.push(async () => {
        const retained = await copyDamaged(dir, part);
        await overwrite(file, offset, bytes);
        return { ...retained, replacedSeq: seq };
      });
      end = await endOfCompleteRecords(handle, { offset: part.end, seq: seq + 1 });
    }
    const { offset } = end;
    if (offset < size) {
      const why = end.kind === 'damaged' ? end.why : 'it ends inside a record';
      repairs.push(async () => {
        const retained = await copyDamaged(dir, { segment, offset, end: size, why });
        await truncate(file, offset);
        await syncFolder(dir);
        return { ...retained, replacedSeq: null };
      });
    }
    // An empty segment of an older version is reused, because a new one would have the same name.
    const canAppend = isOfNewestVersion(header) || end.seq === firstSeq;
    return { file, bytes: offset, nextSeq: end.seq, canAppend };
  } finally {
    await handle.close();
  }
}

/** Moves a segment without a header aside: it contains no readable record. */
async function moveDamaged(dir: string, segment: string, size: number, why: string): Promise<JournalCut> {
  const damagedFile = await freeName(`${join(dir, segment)}.0.damaged`);
  await rename(join(dir, segment), damagedFile);
  await syncFolder(dir);
  return { segment, damagedFile, damagedBytes: size, why, replacedSeq: null };
}

/** The end of the last whole record, scanning from one record on. */
async function endOfCompleteRecords(
  handle: FileHandle,
  from: { offset: number; seq: number }
): Promise<ScanEnd> {
  const scan = scanSegment(handle, { ...from, verifyFrom: from.seq });
  let step = await scan.next();
  while (step.done !== true) step = await scan.next();
  return step.value;
}

async function gapFor(handle: FileHandle, end: ScanEnd): Promise<(DamagedRecord & { bytes: Buffer }) | null> {
  const bytes = end.kind === 'damaged' ? await gapInPlace(handle, end) : null;
  return end.kind === 'damaged' && bytes !== null ? { ...end, bytes } : null;
}

async function overwrite(file: string, offset: number, bytes: Buffer): Promise<void> {
  const target = await open(file, 'r+');
  try {
    await target.write(bytes, 0, bytes.length, offset);
    await target.sync();
  } finally {
    await target.close();
  }
}

interface DamagedPart {
  readonly segment: string;
  readonly offset: number;
  readonly end: number;
  readonly why: string;
}

/** Copies the bytes into a separate file. */
async function copyDamaged(
  dir: string,
  { segment, offset, end, why }: DamagedPart
): Promise<Omit<JournalCut, 'replacedSeq'>> {
  const file = join(dir, segment);
  const damagedFile = await freeName(`${file}.${offset}.damaged`);
  const source = await open(file, 'r');
  try {
    const target = await open(damagedFile, 'wx', 0o600);
    try {
      const buffer = Buffer.allocUnsafe(Math.min(end - offset, 1024 * 1024));
      for (let at = offset; at < end;) {
        const { bytesRead } = await source.read(buffer, 0, Math.min(buffer.length, end - at), at);
        if (bytesRead === 0) break;
        await target.writeFile(buffer.subarray(0, bytesRead));
        at += bytesRead;
      }
      await target.sync();
    } catch (error) {
      await rm(damagedFile, { force: true });
      throw error;
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
  await syncFolder(dir);
  return { segment, damagedFile, damagedBytes: end - offset, why };
}

/** A second repair at the same place must not overwrite the file of the first one. */
async function freeName(preferred: string): Promise<string> {
  let name = preferred;
  for (let attempt = 2; await exists(name); attempt++) {
    name = preferred.replace(/\.damaged$/, `-${attempt}.damaged`);
  }
  return name;
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(ifMissing(null))) !== null;
}

/** How far to search after the damaged record: enough to check that the next one is whole, unless it is very large. */
const MAX_SCAN_BYTES = 64 * 1024 * 1024;

/**
 * Replaces a damaged record with a gap record, when whole records follow. The gap record has the same length and number, so
 * that everything after it keeps its place, and the positions of clients stay valid.
 */
interface DamagedRecord {
  readonly offset: number;
  readonly seq: number;
  readonly why: string;
}

/**
 * The bytes to write at `offset` instead of the record there; null when its length cannot be trusted, because no whole
 * record with the next number follows, or when it is too short for the gap's description.
 */
async function gapInPlace(handle: FileHandle, { offset, seq, why }: DamagedRecord): Promise<Buffer | null> {
  const { size } = await handle.stat();
  const record = await recordAt(handle, offset, size);
  if (record === null) return null;
  const next = await recordAt(handle, offset + record.length, size);
  if (next === null || seqAt(next, 0) !== seq + 1 || !checksumMatches(next, 0, next.length)) return null;
  // Uses the next record's time: the time of the damaged record is as doubtful as the rest of it.
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

/** The record whose size is in its length field; null when that is impossible. */
async function recordAt(handle: FileHandle, offset: number, size: number): Promise<Buffer | null> {
  const head = await read(handle, offset, RECORD_OVERHEAD);
  const probe = head.length < RECORD_OVERHEAD ? null : probeRecord(head, 0);
  if (probe === null || probe.kind === 'damaged') return null;
  const length = probe.kind === 'whole' ? probe.end : probe.needed;
  if (length > MAX_SCAN_BYTES || offset + length > size) return null;
  const bytes = await read(handle, offset, length);
  return bytes.length === length ? bytes : null;
}

async function read(handle: FileHandle, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  const { bytesRead } = await handle.read(bytes, 0, length, offset);
  return bytes.subarray(0, bytesRead);
}
