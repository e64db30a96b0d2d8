/** How long to wait before the next attempt. */

export const FIRST_WAIT_MS = 1_000;
export const MAX_WAIT_MS = 30_000;

/**
 * Doubles from 1 s to 30 s. A quarter of each wait is random, so that the pages of one gateway do not
 * all return in the same instant; the result never leaves the two limits.
 *
 * @param attempt 1 for the first wait after a loss
 * @param random a number in [0, 1)
 */
export function backoffMs(attempt: number, random: number): number {
  const doubled = FIRST_WAIT_MS * 2 ** Math.min(Math.max(attempt, 1) - 1, 16);
  const whole = Math.min(doubled, MAX_WAIT_MS);
  return Math.max(FIRST_WAIT_MS, Math.round(whole * (0.75 + 0.25 * random)));
}

const FIRST_RETRY_MS = 500;

/** How long to wait before retry `attempt` (0 is the first) of a request that is cheap to refuse: doubling, 0.5 s to 30 s. */
export function retryDelayMs(attempt: number, longestMs: number = MAX_WAIT_MS): number {
  return Math.min(longestMs, FIRST_RETRY_MS * 2 ** Math.min(attempt, 16));
}
