/** The wall clock may be set, and stands still for no suspended machine; the monotonic clock is not set, and counts no suspension. */

export interface Clock {
  /** Unix milliseconds; may be set. */
  now(): number;
  /** Milliseconds since some moment, from a monotonic clock. */
  elapsed(): number;
}

const SYSTEM_CLOCK: Clock = { now: () => Date.now(), elapsed: () => performance.now() };

/** A clock that is being corrected drifts less; a clock that was set, or slept, is off by more. */
const JUMP_MS = 60_000;

/** Notices that the wall clock was set, or the machine suspended, between two questions. */
export class ClockJumps {
  #ahead: number;

  constructor(readonly clock: Clock = SYSTEM_CLOCK) {
    this.#ahead = clock.now() - clock.elapsed();
  }

  /** Whether that happened since the last question. */
  hasJumped(): boolean {
    const before = this.#ahead;
    this.#ahead = this.clock.now() - this.clock.elapsed();
    return Math.abs(this.#ahead - before) > JUMP_MS;
  }
}
