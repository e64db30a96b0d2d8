/**
 * Removes the oldest segments of a journal; records are never removed in any other way. Only whole segments, oldest first,
 * and never the newest one, so that the stored records have no hole and a writer is not disturbed. A removal is noted
 * first.
 */
import { readdir, readFile, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { listSegments, type SegmentName } from './segment-file.js';
import { syncFolder, writeAtomically } from '@tpulab/platform/write-atomically.js';
import { indexFileName } from './stored-index.js';
import { integer, isShaped, list, number, object, oneOf, type Shaped } from '@tpulab/platform/shape.js';
import { ifMissing } from '@tpulab/platform/missing-files.js';

export interface SegmentSize extends SegmentName {
  readonly bytes: number;
  /** Unix milliseconds of the last write. */
  readonly writtenAt: number;
}

/** A removal, done or planned. */
export interface Trim {
  readonly code: TrimCode;
  /** The removed records, both included. */
  readonly from: number;
  readonly to: number;
  readonly segments: number;
  readonly bytes: number;
}

/** The segments with their sizes, oldest first. Segments that are removed during the measurement are left out. */
export async function measureSegments(dir: string): Promise<SegmentSize[]> {
  const found = await Promise.all(
    (await listSegments(dir)).map(async segment => {
      const found = await stat(join(dir, segment.file)).catch(ifMissing(null));
      return found === null ? [] : [{ ...segment, bytes: found.size, writtenAt: found.mtimeMs }];
    })
  );
  return found.flat();
}

/** How many of the oldest segments must be removed so that the rest, the newest at least, has no more than `maxBytes`. */
export function segmentsOver(segments: readonly { readonly bytes: number }[], maxBytes: number): number {
  let total = segments.reduce((sum, { bytes }) => sum + bytes, 0);
  let count = 0;
  while (total > maxBytes && count < segments.length - 1) {
    total -= segments[count]?.bytes ?? 0;
    count++;
  }
  return count;
}

/** Removes the `count` oldest segments, or all but the newest; null when none can be removed. */
export async function trimSegments(
  dir: string,
  count: number,
  code: TrimCode,
  now = Date.now()
): Promise<Trim | null> {
  const segments = await measureSegments(dir);
  const removed = segments.slice(0, Math.min(count, segments.length - 1));
  const [first] = removed;
  const firstRetained = segments[removed.length];
  if (first === undefined || firstRetained === undefined) return null;
  const trim = {
    code,
    from: first.firstSeq,
    to: firstRetained.firstSeq - 1,
    segments: removed.length,
    bytes: removed.reduce((sum, { bytes }) => sum + bytes, 0)
  };
  const note = { code, from: trim.from, to: trim.to, at: now };
  const isNoted = await addTrimNote(dir, note).then(
    () => true,
    () => false
  );
  for (const { file, firstSeq } of removed) {
    await removeIfThere(join(dir, file));
    await removeIfThere(join(dir, indexFileName(firstSeq)));
  }
  await removeDamagedBefore(dir, firstRetained.firstSeq);
  await syncFolder(dir);
  if (!isNoted) {
    // A full disk had no room for the note before; now it has. Without the note the gap is shown anyway.
    await addTrimNote(dir, note);
  }
  return trim;
}

/** The damaged bytes that a repair kept are removed with their segment. */
async function removeDamagedBefore(dir: string, firstSeq: number): Promise<void> {
  for (const name of await readdir(dir)) {
    const seq = /^(\d{20})\.seg\..*\.damaged$/.exec(name)?.[1];
    if (seq !== undefined && Number(seq) < firstSeq) await removeIfThere(join(dir, name));
  }
}

async function removeIfThere(file: string): Promise<void> {
  await unlink(file).catch(ifMissing(undefined));
}

/**
 * `trimmed.json` beside the segments: which records were removed on purpose, and why. It is written before the
 * removal. The segment files alone determine what is missing; the notes only give the reason, so that a crash in between,
 * or the loss of this file, misleads no reader.
 */
export const TRIM_NOTES_FILE = 'trimmed.json';

/** Above this limit, the oldest notes are joined: a few lines must cover years of trimming. */
const MAX_NOTES = 32;

/** The kernel's own quota; the quota of all kernels; the time after the kernel's end; `tpulab journal prune`. */
const TrimCode = oneOf('journal_quota', 'journal_total_quota', 'journal_retention', 'journal_pruned');
export type TrimCode = Shaped<typeof TrimCode>;

const TrimNote = object({
  code: TrimCode,
  /** The records that were removed, both included. */
  from: integer({ min: 1 }),
  to: integer({ min: 1 }),
  /** Unix milliseconds of the removal, the last one when notes were joined. */
  at: number()
});
export type TrimNote = Shaped<typeof TrimNote>;

const TrimNotes = object({ version: oneOf(1), trimmed: list(TrimNote) });

/** Oldest first; empty when nothing was trimmed, or the file is damaged. */
export async function readTrimNotes(dir: string): Promise<readonly TrimNote[]> {
  try {
    const value: unknown = JSON.parse(await readFile(join(dir, TRIM_NOTES_FILE), 'utf8'));
    return isShaped(TrimNotes, value) ? value.trimmed : [];
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** The first seq after the records that were removed on purpose: their numbers are not reused, even when no segment remains. */
export async function seqAfterTrimmed(dir: string): Promise<number> {
  return (await readTrimNotes(dir)).reduce((last, { to }) => Math.max(last, to), 0) + 1;
}

/** Adds a note and makes it durable. Of two simultaneous notes one may be lost; then a reason is lost, but no gap. */
async function addTrimNote(dir: string, note: TrimNote): Promise<void> {
  const notes = joined([...(await readTrimNotes(dir)), note]);
  await writeAtomically(join(dir, TRIM_NOTES_FILE), `${JSON.stringify({ version: 1, trimmed: notes })}\n`);
}

function joined(notes: readonly TrimNote[]): TrimNote[] {
  const result: TrimNote[] = [];
  for (const note of notes) {
    const last = result.at(-1);
    if (last?.code === note.code) {
      result[result.length - 1] = {
        ...note,
        from: Math.min(last.from, note.from),
        to: Math.max(last.to, note.to)
      };
    } else {
      result.push(note);
    }
  }
  const tooMany = result.splice(0, Math.max(result.length - MAX_NOTES, 0));
  const [oldest] = result;
  const from = tooMany[0]?.from;
  return oldest === undefined || from === undefined ? result : [{ ...oldest, from }, ...result.slice(1)];
}
