import { expect, it } from 'vitest';
import { growthOf, isGrowing } from './growth.js';

const atMs = Array.from({ length: 60 }, (_, index) => index * 1000);
/** Fluctuations that are the same in every run. */
const noise = atMs.map((_, index) => ((index * 7919) % 13) - 6);

it('recognises linear growth, and its rate per hour', () => {
  const growth = growthOf(
    atMs,
    atMs.map(at => 100 + at / 1000)
  );
  expect(growth.overRun).toBeCloseTo(59);
  expect(growth.perHour).toBeCloseTo(3600);
  expect(growth.error).toBeCloseTo(0);
  expect(isGrowing(growth, 10)).toBe(true);
  expect(isGrowing(growth, 100)).toBe(false);
});

it('recognises fluctuations', () => {
  expect(isGrowing(growthOf(atMs, noise), 0)).toBe(false);
  const rising = noise.map((value, index) => value + index / 2);
  expect(isGrowing(growthOf(atMs, rising), 10)).toBe(true);
});

it('gives no result for two samples', () => {
  expect(() => growthOf([0, 1], [1, 2])).toThrow('say nothing');
});
