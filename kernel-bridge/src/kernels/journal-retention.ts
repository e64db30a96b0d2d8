/**
 * Which journals go, and when: those of kernels that ended long ago, then, while all together are too large, the oldest of
 * ended kernels, then the oldest segments of running ones. The newest segment of a running kernel never goes, and nothing of a
 * kernel of another machine or container: what its keeper and its gateway do cannot be known here. Its bytes are theirs to count.
 */
import { rm } from 'node:fs/promises';
import type { JournalLimits, TrimCode } from '../journal/index.js';
import { segmentsOver, trimSegments } from '../journal/index.js';
import { bytesOf, type JournalFolder } from './journal-folders.js';

/** What one journal has to give up. */
export interface Removal {
  readonly journal: JournalFolder;
  readonly code: TrimCode;
  /** How many of its oldest segments go. */
  readonly segments: number;
  /** The kernel's folder goes as a whole; only for a kernel that has ended. */
  readonly whole: boolean;
  readonly bytes: number;
}

export type RetentionLimits = Pick<JournalLimits, 'totalBytes' | 'retentionMs'>;

/** Reads nothing and removes nothing. */
export function planRemovals(
  journals: readonly JournalFolder[],
  { totalBytes, retentionMs }: RetentionLimits,
  now: number
): Removal[] {
  const plan: Removal[] = [];
  const ended: { journal: JournalFolder; endedAt: number }[] = [];
  const running: JournalFolder[] = [];
  for (const journal of journals) {
    if (journal.elsewhere !== null) continue;
    if (journal.endedAt === null) running.push(journal);
    else if (now - journal.endedAt > retentionMs) plan.push(whole(journal, 'journal_retention'));
    else ended.push({ journal, endedAt: journal.endedAt });
  }
  const left = [...ended.map(({ journal }) => journal), ...running];
  let over = left.reduce((sum, each) => sum + bytesOf(each), 0) - totalBytes;
  for (const { journal } of ended.sort((a, b) => a.endedAt - b.endedAt)) {
    if (over <= 0) break;
    const removal = part(journal, bytesOf(journal) - over);
    // What the newest segment of an ended kernel would leave of the excess, it has to give too.
    const planned = removal.bytes < over ? whole(journal, 'journal_total_quota') : removal;
    plan.push(planned);
    over -= planned.bytes;
  }
  const taken = new Map<JournalFolder, number>();
  for (const { journal } of closedSegments(running)) {
    if (over <= 0) break;
    const count = taken.get(journal) ?? 0;
    over -= journal.segments[count]?.bytes ?? 0;
    taken.set(journal, count + 1);
  }
  for (const [journal, count] of taken) plan.push(oldest(journal, count, 'journal_total_quota'));
  return plan;
}

/** Carries one removal out. Of a kernel that is running by now only closed segments can go. */
export async function remove({ journal, code, segments, whole }: Removal): Promise<void> {
  if (whole) await rm(journal.kernelDir, { recursive: true, force: true });
  else await trimSegments(journal.journalDir, segments, code);
}

/** The `count` oldest segments of a journal. */
export function oldest(journal: JournalFolder, count: number, code: TrimCode): Removal {
  const bytes = journal.segments.slice(0, count).reduce((sum, segment) => sum + segment.bytes, 0);
  return { journal, code, segments: count, whole: false, bytes };
}

export function whole(journal: JournalFolder, code: TrimCode): Removal {
  return { journal, code, segments: journal.segments.length, whole: true, bytes: bytesOf(journal) };
}

function part(journal: JournalFolder, maxBytes: number): Removal {
  return oldest(
    journal,
    segmentsOver(journal.segments, maxBytes - journal.damaged.bytes),
    'journal_total_quota'
  );
}

/** Those that no writer has open, in the order in which they were written, over all journals. */
function closedSegments(journals: readonly JournalFolder[]): { journal: JournalFolder }[] {
  return journals
    .flatMap(journal => journal.segments.slice(0, -1).map(({ writtenAt }) => ({ journal, writtenAt })))
    .sort((a, b) => a.writtenAt - b.writtenAt);
}
