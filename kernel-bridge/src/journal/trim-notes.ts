/**
 * `trimmed.json` beside the segments: which records were removed on purpose, and why. It is written before anything is
 * removed. What is missing is told by the segment files alone; the notes only give the reason, so that a crash in between,
 * or the loss of this file, makes nobody wrong.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomically } from '../platform/write-atomically.js';
import { integer, isShaped, list, number, object, oneOf, type Shaped } from '../platform/shape.js';

export const TRIM_NOTES_FILE = 'trimmed.json';

/** More notes than this are joined, the oldest first: a few lines must do for years of trimming. */
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

/** Numbers of records that were removed on purpose are not given out again, also when no segment is left. */
export async function seqAfterTrimmed(dir: string): Promise<number> {
  return (await readTrimNotes(dir)).reduce((last, { to }) => Math.max(last, to), 0) + 1;
}

/** Adds a note and makes it durable. Of two at the same time one may be lost, and with it a reason, never a gap. */
export async function addTrimNote(dir: string, note: TrimNote): Promise<void> {
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
