// @ts-check
import { describe, expect, it } from 'vitest';
import { explainSpent, spentOf } from './budgets.mjs';
import { PARTS } from './parts.mjs';

const parts = [
  { name: 'small', share: 10 },
  { name: 'middle', share: 30 },
  { name: 'large', share: 60 }
];

/** @param {Readonly<Record<string, number>>} minutes */
const resultsOf = minutes => Object.entries(minutes).map(([name, ms]) => ({ name, ms }));
/** @param {Readonly<Record<string, number>>} minutes */
const verdicts = minutes => [...spentOf(resultsOf(minutes), parts).values()].map(({ verdict }) => verdict);

describe('the budget of a part', () => {
  it('is kept on a machine of any speed', () => {
    for (const factor of [1, 7, 100]) {
      expect(verdicts({ small: 10 * factor, middle: 30 * factor, large: 60 * factor })).toEqual([
        'within',
        'within',
        'within'
      ]);
    }
  });

  it('allows for the differences between runs', () => {
    expect(verdicts({ small: 12, middle: 33, large: 58 })).toEqual(['within', 'within', 'within']);
  });

  it('is reported when a part has grown, and fails when a part has grown far', () => {
    expect(verdicts({ small: 18, middle: 30, large: 60 })).toEqual(['above', 'within', 'within']);
    expect(verdicts({ small: 40, middle: 30, large: 60 })).toEqual(['far above', 'within', 'within']);
    expect(verdicts({ small: 10, middle: 200, large: 60 })).toEqual(['within', 'far above', 'within']);
  });

  it('grows with the others where a part was left out', () => {
    const spent = spentOf(resultsOf({ small: 10, middle: 30 }), parts.slice(0, 2));
    expect(spent.get('middle')).toEqual({ share: 75, budget: 75, verdict: 'within' });
  });

  it('is explained with both figures', () => {
    expect(explainSpent({ share: 18.4, budget: 10, verdict: 'above' })).toMatch(/18 % .* instead of 10 %/);
    expect(explainSpent({ share: 10, budget: 10, verdict: 'within' })).toBeNull();
  });

  it('exists for each part of the tests, and together they are the whole', () => {
    expect(PARTS.filter(({ share }) => !(share > 0))).toEqual([]);
    expect(PARTS.reduce((sum, { share }) => sum + share, 0)).toBe(100);
  });
});
