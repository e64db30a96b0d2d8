/** Keeps the journals of a state folder within their limits while a gateway runs. */
import type { Logger } from 'pino';
import { bytesOf, findJournals, type JournalFolder, mayBeWritten } from './journal-folders.js';
import { rm } from 'node:fs/promises';
import { type Clock, ClockJumps } from '@tpulab/platform/clock.js';
import { type JournalLimits, segmentsOver, type TrimCode, trimSegments } from '../journal/index.js';

/** Journals grow by at most some gigabytes in this time, and retention is counted in days. */
const SWEEP_MS = 10 * 60 * 1000;

interface JournalSweeperOptions {
  readonly stateDir: string;
  readonly limits: RetentionLimits;
  /** Kernels that the gateway has, or is starting: they do not count as ended. */
  readonly isInUse: (kernelId: string) => boolean;
  readonly log: Logger;
  readonly intervalMs?: number;
  readonly clock?: Clock;
}

export class JournalSweeper implements AsyncDisposable {
  readonly #jumps: ClockJumps;
  readonly #grace: ExpiryGrace;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> | null = null;
  #isDisposed = false;

  constructor(private readonly options: JournalSweeperOptions) {
    this.#jumps = new ClockJumps(options.clock);
    // With a shorter retention, the grace period is shortened to it.
    this.#grace = new ExpiryGrace(Math.min(options.limits.retentionMs, GRACE_MS), this.#jumps);
    this.#timer = setInterval(() => void this.sweep(), options.intervalMs ?? SWEEP_MS);
    this.#timer.unref();
  }

  /** Checks once; joins a running check. Never rejects: journals that cannot be removed now are retried later. */
  sweep(): Promise<void> {
    this.#running ??= this.#sweep().finally(() => (this.#running = null));
    return this.#running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  async #sweep(): Promise<void> {
    const { stateDir, limits, isInUse, log } = this.options;
    try {
      const journals = (await findJournals(stateDir, isInUse)).filter(each => !mayBeWritten(each));
      const plan = planRemovals(journals, limits, this.#jumps.clock.now());
      const expired = plan.filter(({ code }) => code === 'journal_retention');
      const overdue = this.#grace.overdue(expired.map(({ journal }) => journal.kernelId));
      for (const removal of plan) {
        const { journal, code, segments, bytes, whole } = removal;
        if (code === 'journal_retention' && !overdue.has(journal.kernelId)) continue;
        // A client may have started a kernel with this id since the check.
        if (this.#isDisposed || (whole && isInUse(journal.kernelId))) continue;
        await remove(removal);
        log.info({ kernelId: journal.kernelId, code, segments, bytes, whole }, 'old records were removed');
      }
    } catch (error) {
      log.error({ err: error }, 'the journals could not be kept within their limits');
    }
  }
}

/** Time servers are queried within minutes of a start. */
const GRACE_MS = 60 * 60 * 1000;

/**
 * Retention trusts the clock only after a while. A clock that jumps ahead, on a machine that starts without the time or is
 * set wrongly, would make every journal look old at once; correcting the time would not bring back removed journals.
 */
class ExpiryGrace {
  readonly #since = new Map<string, number>();

  constructor(
    private readonly graceMs: number,
    private readonly jumps: ClockJumps
  ) {}

  /** The journals, among the now expired ones, that have been expired for long enough by a monotonic clock. */
  overdue(expired: readonly string[]): ReadonlySet<string> {
    const elapsed = this.jumps.clock.elapsed();
    const hasJumped = this.jumps.hasJumped();
    const before = new Map(this.#since);
    this.#since.clear();
    const overdue = new Set<string>();
    for (const id of expired) {
      const since = (hasJumped ? undefined : before.get(id)) ?? elapsed;
      this.#since.set(id, since);
      if (elapsed - since >= this.graceMs) overdue.add(id);
    }
    return overdue;
  }
}

/**
 * Which journals are removed, and in which order: journals of kernels that ended long ago, then, while the total is too
 * large, the oldest journals of ended kernels, then the oldest segments of running ones. The newest segment of a running
 * kernel always stays. So does all data of a kernel of another machine or container, because the activity of its keeper and
 * gateway is not visible here; its bytes count towards the total.
 */

export interface Removal {
  readonly journal: JournalFolder;
  readonly code: TrimCode;
  /** How many of its oldest segments are removed. */
  readonly segments: number;
  /** The kernel's folder is removed as a whole; only for a kernel that has ended. */
  readonly whole: boolean;
  readonly bytes: number;
}

type RetentionLimits = Pick<JournalLimits, 'totalBytes' | 'retentionMs'>;

/** Only plans: reads nothing and removes nothing. */
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
  const remaining = [...ended.map(({ journal }) => journal), ...running];
  let over = remaining.reduce((sum, each) => sum + bytesOf(each), 0) - totalBytes;
  for (const { journal } of ended.sort((a, b) => a.endedAt - b.endedAt)) {
    if (over <= 0) break;
    const removal = part(journal, bytesOf(journal) - over);
    // If the newest segment of an ended kernel would still exceed the total, it is removed too.
    const planned = removal.bytes < over ? whole(journal, 'journal_total_quota') : removal;
    plan.push(planned);
    over -= planned.bytes;
  }
  const removedCounts = new Map<JournalFolder, number>();
  for (const { journal } of closedSegments(running)) {
    if (over <= 0) break;
    const count = removedCounts.get(journal) ?? 0;
    over -= journal.segments[count]?.bytes ?? 0;
    removedCounts.set(journal, count + 1);
  }
  for (const [journal, count] of removedCounts) plan.push(oldest(journal, count, 'journal_total_quota'));
  return plan;
}

/** Carries out one removal. If the kernel has meanwhile started, only closed segments are removed. */
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

/** The segments without a writer, over all journals, in the order in which they were written. */
function closedSegments(journals: readonly JournalFolder[]): { journal: JournalFolder }[] {
  return journals
    .flatMap(journal => journal.segments.slice(0, -1).map(({ writtenAt }) => ({ journal, writtenAt })))
    .sort((a, b) => a.writtenAt - b.writtenAt);
}
