/**
 * Counts requests without a valid token, per address. Above the limit they are answered 429 and no longer logged
 * individually. A valid token is accepted anyway: on 127.0.0.1 all clients share one address, and a page of another site must not
 * be able to lock out the owner by sending nonsense. The length of tokens prevents guessing, not this count.
 */
import type { Logger } from 'pino';
import { setNewest } from '@tpulab/platform/bounded.js';

export interface AttemptLimits {
  /** Requests without a valid token that one address may make in a window. */
  readonly perWindow: number;
  readonly windowMs: number;
  /** Limit of stored addresses; the address that has been quiet longest is dropped first. */
  readonly maxAddresses: number;
}

export const ATTEMPT_LIMITS: AttemptLimits = { perWindow: 300, windowMs: 60_000, maxAddresses: 1024 };

interface Window {
  count: number;
  startedAt: number;
}

export class FailedAttempts {
  /** In the order of their last failure. */
  readonly #windows = new Map<string, Window>();

  constructor(
    private readonly limits: AttemptLimits,
    private readonly log: Logger,
    private readonly now: () => number = () => performance.now()
  ) {}

  get addresses(): number {
    return this.#windows.size;
  }

  /** Counts one failed attempt; returns how many seconds the address has to wait, or null below the limit. */
  note(address: string): number | null {
    const { perWindow, windowMs, maxAddresses } = this.limits;
    const now = this.now();
    let window = this.#windows.get(address);
    if (!window || now - window.startedAt >= windowMs) window = { count: 0, startedAt: now };
    window.count += 1;
    setNewest(this.#windows, address, window, maxAddresses);
    if (window.count <= perWindow) return null;
    if (window.count === perWindow + 1) {
      this.log.warn({ address, attempts: window.count }, 'too many requests without a valid token');
    }
    return Math.max(1, Math.ceil((window.startedAt + windowMs - now) / 1000));
  }
}
