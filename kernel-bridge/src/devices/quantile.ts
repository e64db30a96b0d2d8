/** Quantiles of a distribution that came as counts in exponential buckets. */
import type { Distribution } from './metric-points.js';

/**
 * Bucket 0 is all below `scale`, bucket i reaches from `scale * growth^(i-1)` to `scale * growth^i`, and the last has no end.
 * Inside a bucket the values are taken as spread evenly, and the answer never leaves [min, max].
 *
 * @returns null when nothing was counted or the buckets are not exponential
 */
export function quantile(of: Distribution, share: number): number | null {
  const { buckets, growthFactor, scale } = of;
  const total = buckets.reduce((sum, count) => sum + count, 0);
  if (total <= 0 || !(growthFactor > 1) || !(scale > 0)) return null;
  let below = 0;
  for (const [index, count] of buckets.entries()) {
    if (count > 0 && below + count >= share * total) {
      const from = index === 0 ? 0 : scale * growthFactor ** (index - 1);
      const to = index === buckets.length - 1 ? Math.max(from, of.max) : scale * growthFactor ** index;
      const value = from + (Math.max(0, share * total - below) / count) * (to - from);
      return of.max > 0 ? Math.min(Math.max(value, of.min), of.max) : value;
    }
    below += count;
  }
  return null;
}
