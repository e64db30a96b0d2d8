/** Bytes that come one after the other, with their mean rate since the first of them. */
import type { Transfer } from '@tpulab/protocol';

/** A rate over less says nothing. */
const MIN_MS = 500;

export class TransferRate {
  readonly #now: () => number;
  #since: number | null = null;

  /** @param now in milliseconds, from any moment on */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** The clock runs from the first call on. */
  begin(): void {
    this.#since ??= this.#now();
  }

  at(bytes: number, totalBytes: number | null): Transfer {
    this.begin();
    const tookMs = this.#now() - (this.#since ?? 0);
    return { bytes, totalBytes, bytesPerS: tookMs < MIN_MS ? null : (bytes / tookMs) * 1_000 };
  }
}
