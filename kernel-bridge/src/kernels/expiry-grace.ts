/**
 * Retention believes the clock only after a while. A clock that jumps ahead, of a machine that starts without the time or is
 * set wrongly, would make every journal look old in one moment; what is removed then does not come back with the right time.
 */
export interface SweepClock {
  /** Unix milliseconds; may be set. */
  now(): number;
  /** Milliseconds since some moment; goes on evenly. */
  elapsed(): number;
}

export const SYSTEM_CLOCK: SweepClock = { now: () => Date.now(), elapsed: () => performance.now() };

/** Time servers are asked within minutes of a start. */
export const GRACE_MS = 60 * 60 * 1000;
/** A clock that is being corrected drifts less; one that was set, or slept, is further off. */
const JUMP_MS = 60_000;

export class ExpiryGrace {
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
