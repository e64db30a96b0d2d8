import { describe, expect, it } from 'vitest';
import { step } from './samples.spec-data.js';
import { SPANS, StepRing } from './step-ring.js';

describe('StepRing', () => {
  it('gives steps back in order with all their spans', () => {
    const ring = new StepRing(4);
    ring.push(step(7, { inputMs: 1, hostMs: 2, compileMs: 3, deviceMs: 4, gapMs: 5, deviceKnown: false }));
    ring.push(step(8, { startTime: 1_700_000_000_123 }));
    expect(ring.length).toBe(2);
    expect(ring.index(0)).toBe(7);
    expect(SPANS.map((_, span) => ring.spanMs(0, span))).toEqual([1, 2, 3, 4, 5]);
    expect(ring.wallMs(0)).toBe(15);
    expect(ring.deviceKnown(0)).toBe(false);
    expect(ring.startTime(1)).toBe(1_700_000_000_123);
  });

  it('overwrites the oldest steps and preserves the order, wherever it wraps', () => {
    for (let total = 1; total <= 13; total += 1) {
      const ring = new StepRing(5);
      for (let index = 0; index < total; index += 1) {
        ring.push(step(index));
      }
      const held = Array.from({ length: ring.length }, (_, position) => ring.index(position));
      const expected = Array.from({ length: total }, (_, index) => index).slice(-5);
      expect(held).toEqual(expected);
      expect(ring.added).toBe(total);
    }
  });
});
