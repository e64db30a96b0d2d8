/**
 * Removes the oldest segments of a journal, the only way in which records ever go. Only whole segments, oldest first, and
 * never the newest one, so that what is kept has no hole and a writer is not disturbed. What is removed is noted first.
 */
import { readdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { listSegments, type SegmentName } from './segment-file.js';
import { syncFolder } from '../platform/write-atomically.js';
import { indexFileName } from './stored-index.js';
import { addTrimNote, type TrimCode } from './trim-notes.js';

export interface SegmentSize extends SegmentName {
  readonly bytes: number;
  /** Unix milliseconds of the last write. */
  readonly writtenAt: number;
}

/** What was removed, or would be. */
export interface Trim {
  readonly code: TrimCode;
  /** The records that are gone, both included. */
  readonly from: number;
  readonly to: number;
  readonly segments: number;
  readonly bytes: number;
}

/** The segments with their sizes, oldest first. What is removed meanwhile is left out. */
export async function measureSegments(dir: string): Promise<SegmentSize[]> {
  const found = await Promise.all(
    (await listSegments(dir)).map(async segment => {
      try {
        const { size, mtimeMs } = await stat(join(dir, segment.file));
        return [{ ...segment, bytes: size, writtenAt: mtimeMs }];
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
        throw error;
      }
    })
  );
  return found.flat();
}

/** How many of the oldest segments have to go so that the rest, the newest at least, has no more than `maxBytes`. */
export function segmentsOver(segments: readonly { readonly bytes: number }[], maxBytes: number): number {
  let total = segments.reduce((sum, { bytes }) => sum + bytes, 0);
  let count = 0;
  while (total > maxBytes && count < segments.length - 1) {
    total -= segments[count]?.bytes ?? 0;
    count++;
  }
  return count;
}

/** Removes the `count` oldest segments, or all but the newest; null when that is none. */
export async function trimSegments(
  dir: string,
  count: number,
  code: TrimCode,
  now = Date.now()
): Promise<Trim | null> {
  const segments = await measureSegments(dir);
  const going = segments.slice(0, Math.min(count, segments.length - 1));
  const [first] = going;
  const kept = segments[going.length];
  if (first === undefined || kept === undefined) return null;
  const trim = {
    code,
    from: first.firstSeq,
    to: kept.firstSeq - 1,
    segments: going.length,
    bytes: going.reduce((sum, { bytes }) => sum + bytes, 0)
  };
  const note = { code, from: trim.from, to: trim.to, at: now };
  const isNoted = await addTrimNote(dir, note).then(
    () => true,
    () => false
  );
  for (const { file, firstSeq } of going) {
    await removeIfThere(join(dir, file));
    await removeIfThere(join(dir, indexFileName(firstSeq)));
  }
  await removeDamagedBefore(dir, kept.firstSeq);
  await syncFolder(dir);
  if (!isNoted) {
    // On a full disk there was no room for the note; now there is. Without it the gap is shown all the same.
    await addTrimNote(dir, note);
  }
  return trim;
}

/** What a repair kept of a segment goes with the segment. */
async function removeDamagedBefore(dir: string, firstSeq: number): Promise<void> {
  for (const name of await readdir(dir)) {
    const seq = /^(\d{20})\.seg\..*\.damaged$/.exec(name)?.[1];
    if (seq !== undefined && Number(seq) < firstSeq) await removeIfThere(join(dir, name));
  }
}

async function removeIfThere(file: string): Promise<void> {
  try {
    await unlink(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
