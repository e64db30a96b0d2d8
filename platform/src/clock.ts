/** The wall clock can be set, and includes suspensions of the machine; the monotonic clock cannot be set, and excludes them. */

export interface Clock {
  /** Unix milliseconds; may be set. */
  now(): number;
  /** Milliseconds since some moment, from a monotonic clock. */
  elapsed(): number;
}

const SYSTEM_CLOCK: Clock = { now: () => Date.now(), elapsed: () => performance.now() };

/** More than gradual corrections of a clock, and less than setting it or a suspension. */
const JUMP_MS = 60_000;

/** Notices that the wall clock was set, or the machine suspended, between two checks. */
export class ClockJumps {
  #ahead: number;

  constructor(readonly clock: Clock = SYSTEM_CLOCK) {
    this.#ahead = clock.now() - clock.elapsed();
  }

  /** Whether that happened since the last check. */
  hasJumped(): boolean {
    const before = this.#ahead;
    this.#ahead = this.clock.now() - this.clock.elapsed();
    return Math.abs(this.#ahead - before) > JUMP_MS;
  }
}
