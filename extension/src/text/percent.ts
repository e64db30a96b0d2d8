/** Shares in percent. */

/** For example `46%`. */
export function percentText(percent: number): string {
  return `${Math.round(percent)}%`;
}

/**
 * Rounds so that the sum stays 100 (largest remainder); all zero when there is nothing to share.
 * Rounding each share alone would let a bar of five add up to 98 or 102.
 */
export function wholePercents(parts: readonly number[]): number[] {
  const total = parts.reduce((sum, part) => sum + part, 0);
  if (!(total > 0)) {
    return parts.map(() => 0);
  }
  const exact = parts.map(part => (part / total) * 100);
  const percents = exact.map(Math.floor);
  const byRemainder = exact
    .map((value, at) => ({ at, remainder: value - Math.floor(value) }))
    .sort((a, b) => b.remainder - a.remainder || a.at - b.at);
  const missing = 100 - percents.reduce((sum, percent) => sum + percent, 0);
  for (const { at } of byRemainder.slice(0, missing)) {
    percents[at] = (percents[at] ?? 0) + 1;
  }
  return percents;
}
