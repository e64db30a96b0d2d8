/** When written bytes are made durable: soon after an execution has ended, and within 100 ms in any case. */

/** The guarantee is 100 ms; the rest is for the sync itself. */
const DIRTY_MS = 80;

/**
 * An execution ends with a reply and an idle status on two sockets. A moment later, one sync covers both, and in a fast
 * sequence of executions the ends of the next ones as well.
 */
const EXECUTION_END_MS = 10;

/** Delay after a failed sync. */
const RETRY_MS = 500;

export class SyncSchedule {
  #timer: NodeJS.Timeout | null = null;
  #due = Infinity;
  #running: Promise<void> | null = null;
  #stopped = false;

  /** `sync` must not throw synchronously; a rejection goes to `onError`, and it is retried. */
  constructor(
    private readonly sync: () => Promise<void>,
    private readonly onError: (error: unknown) => void
  ) {}

  /** Bytes were written. `soon`: they end an execution. */
  written(endsExecution: boolean): void {
    this.#within(endsExecution ? EXECUTION_END_MS : DIRTY_MS);
  }

  #within(waitMs: number): void {
    const due = performance.now() + waitMs;
    if (this.#stopped || (this.#timer !== null && this.#due <= due)) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => this.#run(), waitMs);
  }

  /** No further sync starts; resolves when the running one has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
      this.#timer = null;
    }
    await this.#running;
  }

  #run(): void {
    this.#timer = null;
    if (this.#running !== null) {
      // The disk is slow: later writes are covered by one more sync, after this one.
      void this.#running.then(() => this.written(true));
      return;
    }
    this.#running = this.sync()
      .catch((error: unknown) => {
        this.onError(error);
        this.#within(RETRY_MS);
      })
      .finally(() => {
        this.#running = null;
      });
  }
}
