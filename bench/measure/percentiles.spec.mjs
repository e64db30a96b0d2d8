// @ts-check
import { describe, expect, it } from 'vitest';
import { percentile, summarize } from './percentiles.mjs';

const hundred = Array.from({ length: 100 }, (_, n) => 100 - n);

describe('percentile', () => {
  it('takes the nearest rank of unsorted samples', () => {
    expect([50, 90, 99, 100, 0.5].map(percent => percentile(hundred, percent))).toEqual([50, 90, 99, 100, 1]);
  });

  it('is the only sample when there is one', () => {
    expect(percentile([7], 99)).toBe(7);
  });

  it('refuses an empty list', () => {
    expect(() => percentile([], 50)).toThrow(RangeError);
  });
});

describe('summarize', () => {
  it('rounds to microseconds', () => {
    expect(summarize([1.23456789])).toEqual({
      samples: 1,
      p50Ms: 1.235,
      p90Ms: 1.235,
      p99Ms: 1.235,
      minMs: 1.235,
      maxMs: 1.235
    });
  });
});
