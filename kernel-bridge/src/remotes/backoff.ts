/** How long to wait before the next attempt: doubling from one second to half a minute, for ever. */

const FIRST_MS = 1_000;
const LONGEST_MS = 30_000;

/**
 * @param failures attempts that have failed in a row, from 1
 * @param random 0 to 1: the wait is cut by up to a quarter, so that several remotes do not try in step
 */
export function waitBefore(failures: number, random = Math.random()): number {
  const full = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, 10));
  return Math.max(FIRST_MS, Math.round(full * (1 - random / 4)));
}
