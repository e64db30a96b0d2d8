/** A write that the disk may refuse: it is retried until it succeeds, and its caller does not fail with it. */

export const RETRY_MS = 1_000;

/** The disk begins to refuse writes (once until they succeed again), or accepts them again (null). */
export type OnWriteFault = (error: Error | null) => void;

export class RetriedWrite implements Disposable {
  #isRefused = false;
  #timer: NodeJS.Timeout | null = null;

  /** `write` writes unsaved data, or throws. */
  constructor(
    private readonly write: () => void,
    private readonly onFault: OnWriteFault
  ) {}

  attempt(): void {
    this[Symbol.dispose]();
    try {
      this.write();
    } catch (error) {
      this.#timer = setTimeout(() => this.attempt(), RETRY_MS).unref();
      if (!this.#isRefused) this.onFault(error as Error);
      this.#isRefused = true;
      return;
    }
    if (this.#isRefused) this.onFault(null);
    this.#isRefused = false;
  }

  /** Ends the retries. */
  [Symbol.dispose](): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
