/** A write that the disk may refuse: it is tried again until the disk takes it, and nobody who caused it fails with it. */

export const RETRY_MS = 1_000;

/** The disk has begun to refuse (once until it takes writes again), or takes them again (null). */
export type OnWriteFault = (error: Error | null) => void;

export class RetriedWrite implements Disposable {
  #isRefused = false;
  #timer: NodeJS.Timeout | null = null;

  /** `write` writes what is not written yet, or throws. */
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

  /** Does not try again. */
  [Symbol.dispose](): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
