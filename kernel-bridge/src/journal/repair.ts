/**
 * Opens what a crash may have left: the journal is cut at the first bad record of its last segment. The bytes that
 * are cut away are kept beside it as `*.damaged`, because they are the only evidence of what happened.
 */
import { open, rename, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { listSegments, SEGMENT_HEADER_BYTES, segmentHeaderFault, type SegmentName } from './segment-file.js';
import { scanSegment } from './segment-scan.js';
import { syncFolder } from './segment-writer.js';

export interface JournalCut {
  readonly segment: string;
  /** The file that keeps the damaged bytes. */
  readonly damagedFile: string;
  readonly damagedBytes: number;
  readonly why: string;
}

export interface OpenedJournal {
  readonly nextSeq: number;
  /** The segment to continue, null when a new one must be made. */
  readonly tail: { readonly file: string; readonly bytes: number } | null;
  /** What had to be cut; empty for a journal that was closed in order. */
  readonly cuts: readonly JournalCut[];
}

/** Must not run while a writer has the journal open. */
export async function repairJournal(dir: string): Promise<OpenedJournal> {
  const segments = await listSegments(dir);
  const cuts: JournalCut[] = [];
  let nextSeq = 1;
  for (let segment = segments.pop(); segment !== undefined; segment = segments.pop()) {
    const tail = await repairSegment(dir, segment, cuts);
    if (tail !== null) {
      return { nextSeq: tail.nextSeq, tail: { file: tail.file, bytes: tail.bytes }, cuts };
    }
    // Its header was never completed, so it held no record: the segment before it is the last one.
    nextSeq = segment.firstSeq;
  }
  return { nextSeq, tail: null, cuts };
}

async function repairSegment(
  dir: string,
  segment: SegmentName,
  cuts: JournalCut[]
): Promise<{ file: string; bytes: number; nextSeq: number } | null> {
  const file = join(dir, segment.file);
  const handle = await open(file, 'r');
  let end;
  let size;
  try {
    const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
    const { bytesRead } = await handle.read(header, 0, SEGMENT_HEADER_BYTES, 0);
    const fault = segmentHeaderFault(header.subarray(0, bytesRead), segment.firstSeq);
    size = (await handle.stat()).size;
    if (fault !== null) {
      const damagedFile = await freeName(`${file}.0.damaged`);
      await rename(file, damagedFile);
      await syncFolder(dir);
      cuts.push({ segment: segment.file, damagedFile, damagedBytes: size, why: fault });
      return null;
    }
    const scan = scanSegment(handle, {
      offset: SEGMENT_HEADER_BYTES,
      seq: segment.firstSeq,
      verifyFrom: segment.firstSeq
    });
    let step = await scan.next();
    while (step.done !== true) {
      step = await scan.next();
    }
    end = step.value;
  } finally {
    await handle.close();
  }
  if (end.offset < size) {
    const why = end.kind === 'damaged' ? end.why : 'it ends inside a record';
    cuts.push(await cutTail(dir, segment.file, end.offset, size, why));
  }
  return { file, bytes: end.offset, nextSeq: end.seq };
}

async function cutTail(
  dir: string,
  name: string,
  offset: number,
  size: number,
  why: string
): Promise<JournalCut> {
  const file = join(dir, name);
  const damagedFile = await freeName(`${file}.${offset}.damaged`);
  const source = await open(file, 'r');
  try {
    const target = await open(damagedFile, 'wx', 0o600);
    try {
      const buffer = Buffer.allocUnsafe(Math.min(size - offset, 1024 * 1024));
      for (let at = offset; at < size;) {
        const { bytesRead } = await source.read(buffer, 0, Math.min(buffer.length, size - at), at);
        if (bytesRead === 0) {
          break;
        }
        await target.writeFile(buffer.subarray(0, bytesRead));
        at += bytesRead;
      }
      await target.sync();
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
  await truncate(file, offset);
  await syncFolder(dir);
  return { segment: name, damagedFile, damagedBytes: size - offset, why };
}

/** A second repair at the same place must not overwrite what the first one kept. */
async function freeName(wanted: string): Promise<string> {
  let name = wanted;
  for (let attempt = 2; await exists(name); attempt++) {
    name = wanted.replace(/\.damaged$/, `-${attempt}.damaged`);
  }
  return name;
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      return false;
    }
    throw error;
  }
}
