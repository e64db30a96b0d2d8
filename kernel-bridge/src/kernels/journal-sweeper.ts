/** Keeps the journals of a state folder within their limits while a gateway runs. */
import type { Logger } from 'pino';
import { findJournals, mayBeWritten } from './journal-folders.js';
import { planRemovals, remove, type RetentionLimits } from './journal-retention.js';

/** Journals grow by at most some gigabytes in this time, and days of retention need no more. */
const SWEEP_MS = 10 * 60 * 1000;

export interface JournalSweeperOptions {
  readonly stateDir: string;
  readonly limits: RetentionLimits;
  /** Kernels that the gateway has, or is starting: never taken for ended. */
  readonly isKept: (kernelId: string) => boolean;
  readonly log: Logger;
  readonly intervalMs?: number;
  readonly clock?: SweepClock;
}

export class JournalSweeper implements AsyncDisposable {
  readonly #options: JournalSweeperOptions;
  readonly #clock: SweepClock;
  readonly #grace: ExpiryGrace;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> | null = null;
  #isDisposed = false;

  constructor(options: JournalSweeperOptions) {
    this.#options = options;
    this.#clock = options.clock ?? SYSTEM_CLOCK;
    // Whoever keeps journals for a shorter time does not wait longer than that for them to go.
    this.#grace = new ExpiryGrace(Math.min(options.limits.retentionMs, GRACE_MS), this.#clock);
    this.#timer = setInterval(() => void this.sweep(), options.intervalMs ?? SWEEP_MS);
    this.#timer.unref();
  }

  /** Looks once; joins a look that is under way. Never rejects: what cannot be removed now is tried again later. */
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
    const { stateDir, limits, isKept, log } = this.#options;
    try {
      const journals = (await findJournals(stateDir, isKept)).filter(each => !mayBeWritten(each));
      const plan = planRemovals(journals, limits, this.#clock.now());
      const expired = plan.filter(({ code }) => code === 'journal_retention');
      const overdue = this.#grace.overdue(expired.map(({ journal }) => journal.kernelId));
      for (const removal of plan) {
        const { journal, code, segments, bytes, whole } = removal;
        if (code === 'journal_retention' && !overdue.has(journal.kernelId)) continue;
        // A client may have started a kernel with this id since the look.
        if (this.#isDisposed || (whole && isKept(journal.kernelId))) continue;
        await remove(removal);
        log.info({ kernelId: journal.kernelId, code, segments, bytes, whole }, 'old records were removed');
      }
    } catch (error) {
      log.error({ err: error }, 'the journals could not be kept within their limits');
    }
  }
}

interface SweepClock {
  /** Unix milliseconds; may be set. */
  now(): number;
  /** Milliseconds since some moment; goes on evenly. */
  elapsed(): number;
}

const SYSTEM_CLOCK: SweepClock = { now: () => Date.now(), elapsed: () => performance.now() };

/** Time servers are asked within minutes of a start. */
const GRACE_MS = 60 * 60 * 1000;
/** A clock that is being corrected drifts less; one that was set, or slept, is further off. */
const JUMP_MS = 60_000;

/**
 * Retention believes the clock only after a while. A clock that jumps ahead, of a machine that starts without the time or is
 * set wrongly, would make every journal look old in one moment; what is removed then does not come back with the right time.
 */
class ExpiryGrace {
  readonly #since = new Map<string, number>();
  #last: { readonly now: number; readonly elapsed: number } | null = null;

  constructor(
    private readonly graceMs: number,
    private readonly clock: SweepClock
  ) {}

  /** Of these journals, which have now expired, those that have been so for long enough by an even clock. */
  overdue(expired: readonly string[]): ReadonlySet<string> {
    const now = this.clock.now();
    const elapsed = this.clock.elapsed();
    const hasJumped =
      this.#last !== null && Math.abs(now - this.#last.now - (elapsed - this.#last.elapsed)) > JUMP_MS;
    this.#last = { now, elapsed };
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
