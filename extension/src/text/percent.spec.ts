import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { wholePercents } from './percent.js';

describe('wholePercents', () => {
  it('adds up to 100 and stays within one of the exact share, whatever the parts', () => {
    const parts = fc.array(fc.double({ min: 0, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(parts, values => {
        const total = values.reduce((sum, value) => sum + value, 0);
        fc.pre(total > 1e-6);
        const percents = wholePercents(values);
        expect(percents.reduce((sum, value) => sum + value, 0)).toBe(100);
        percents.forEach((percent, at) => {
          expect(Math.abs(percent - ((values[at] ?? 0) / total) * 100)).toBeLessThanOrEqual(1 + 1e-6);
        });
      })
    );
  });

  it('shares nothing as nothing', () => {
    expect(wholePercents([0, 0, 0])).toEqual([0, 0, 0]);
  });

  it('gives the odd percent to the largest remainder', () => {
    expect(wholePercents([1, 1, 1])).toEqual([34, 33, 33]);
  });
});
