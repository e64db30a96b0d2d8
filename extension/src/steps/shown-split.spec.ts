import { describe, expect, it } from 'vitest';
import { step } from '../events/samples.spec-data.js';
import { SPANS, StepRing } from '../events/step-ring.js';
import { isEstimated, shownSpanMs, watchedShares } from './shown-split.js';
import { summarize } from './summary.js';

function ringOf(...samples: Parameters<typeof step>[]): StepRing {
  const ring = new StepRing(8);
  samples.forEach(sample => ring.push(step(...sample)));
  return ring;
}

const COMPILED = { compileMs: 2_900, deviceMs: 0, inputMs: 50, hostMs: 50, gapMs: 0, deviceKnown: false };
const UNWATCHED = { inputMs: 2, hostMs: 98, compileMs: 0, deviceMs: 0, gapMs: 0, deviceKnown: false };

function shown(ring: StepRing, position: number, window = 8): number[] {
  const shares = watchedShares(ring, window);
  return SPANS.map((_, span) => shownSpanMs(ring, position, span, shares));
}

function expectClose(values: readonly number[], expected: readonly number[]): void {
  expect(values).toHaveLength(expected.length);
  values.forEach((value, at) => expect(value).toBeCloseTo(expected[at] ?? Number.NaN));
}

describe('the displayed split of a step', () => {
  it('is the measured split, for a watched step', () => {
    expectClose(shown(ringOf([0], [1, UNWATCHED]), 0), [2, 3, 0, 40, 5]);
  });

  it("is the watched steps' split at its own length, for an unwatched step", () => {
    const ring = ringOf([0], [1, UNWATCHED]);
    expect(isEstimated(ring, 1, watchedShares(ring, 8))).toBe(true);
    expectClose(shown(ring, 1), [4, 6, 0, 80, 10]);
  });

  it('weighs long watched steps more than short ones', () => {
    const ring = ringOf([0], [1, { inputMs: 150, hostMs: 0, deviceMs: 0, gapMs: 0 }], [2, UNWATCHED]);
    expectClose(shown(ring, 2), [76, 1.5, 0, 20, 2.5]);
  });

  it('leaves a step that compiled as it was measured, and out of the proportions', () => {
    const ring = ringOf([0, COMPILED], [1], [2, UNWATCHED]);
    expect(isEstimated(ring, 0, watchedShares(ring, 8))).toBe(false);
    expectClose(shown(ring, 0), [50, 50, 2_900, 0, 0]);
    expectClose(shown(ring, 2), [4, 6, 0, 80, 10]);
  });

  it('includes earlier steps where too few steps of the window were watched', () => {
    const ring = ringOf([0], [1, UNWATCHED], [2, UNWATCHED]);
    expectClose(shown(ring, 2, 2), [4, 6, 0, 80, 10]);
  });

  it("estimates a later step's work besides compiling", () => {
    const ring = ringOf([0], [1, { ...COMPILED, inputMs: 0, hostMs: 100 }]);
    expectClose(shown(ring, 1), [4, 6, 2_900, 80, 10]);
  });

  it('leaves everything as it was measured when no step was watched', () => {
    const ring = ringOf([0, UNWATCHED], [1, UNWATCHED], [2, UNWATCHED]);
    expect(watchedShares(ring, 2)).toBeNull();
    expect(isEstimated(ring, 2, watchedShares(ring, 2))).toBe(false);
    expectClose(shown(ring, 2, 2), [2, 98, 0, 0, 0]);
    expect(watchedShares(new StepRing(8), 8)).toBeNull();
  });

  it('adds up over the steps to the summary', () => {
    const ring = ringOf([0, COMPILED], [1], [2, UNWATCHED], [3, { hostMs: 13 }], [4, UNWATCHED]);
    const sums = SPANS.map((_, span) =>
      [0, 1, 2, 3, 4].reduce((sum, position) => sum + (shown(ring, position)[span] ?? 0), 0)
    );
    const summary = summarize(ring, 8);
    expectClose(summary?.spans.map(({ meanMs }) => meanMs * summary.count) ?? [], sums);
    expect(summary?.estimatedSteps).toBe(2);
  });
});
