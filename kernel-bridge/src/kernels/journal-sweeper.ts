/** Keeps the journals of a state folder within their limits while a gateway runs. */
import type { Logger } from 'pino';
import { ExpiryGrace, GRACE_MS, type SweepClock, SYSTEM_CLOCK } from './expiry-grace.js';
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
