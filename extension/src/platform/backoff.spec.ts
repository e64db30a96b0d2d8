import { describe, expect, it } from 'vitest';
import { backoffMs, FIRST_WAIT_MS, MAX_WAIT_MS } from './backoff.js';

describe('backoffMs', () => {
  it('doubles from one second to thirty seconds', () => {
    const longest = [1, 2, 3, 4, 5, 6, 7, 100].map(attempt => backoffMs(attempt, 1));
    expect(longest).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  });

  it('stays within its limits for every attempt and every draw', () => {
    for (const attempt of [0, 1, 2, 5, 6, 1_000, Number.MAX_SAFE_INTEGER]) {
      for (const random of [0, 0.25, 0.999]) {
        const waitMs = backoffMs(attempt, random);
        expect(waitMs).toBeGreaterThanOrEqual(FIRST_WAIT_MS);
        expect(waitMs).toBeLessThanOrEqual(MAX_WAIT_MS);
      }
    }
  });

  it('spreads the pages of one gateway', () => {
    expect(backoffMs(4, 0)).toBe(6_000);
    expect(backoffMs(4, 0.5)).toBe(7_000);
  });
});
