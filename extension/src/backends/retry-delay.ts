/** How long to wait before attempt `attempt` (0 is the first retry): doubling, 0.5 s to 30 s. */
const FIRST_MS = 500;
const LONGEST_MS = 30_000;

export function retryDelayMs(attempt: number, longestMs: number = LONGEST_MS): number {
  return Math.min(longestMs, FIRST_MS * 2 ** Math.min(attempt, 16));
}
