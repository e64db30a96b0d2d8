import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  wholePercents,
  sizeText,
  usageText,
  durationText,
  secondsText,
  countdownText,
  countText
} from './figures.js';

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

  it('returns only zeros for a total of zero', () => {
    expect(wholePercents([0, 0, 0])).toEqual([0, 0, 0]);
  });

  it('gives the odd percent to the largest remainder', () => {
    expect(wholePercents([1, 1, 1])).toEqual([34, 33, 33]);
  });
});

const GIB = 1_024 ** 3;

describe('sizes of memory', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1_024, '1.0 KiB'],
    [15.75 * GIB, '15.8 GiB'],
    [192 * GIB, '192 GiB'],
    [1_000 * GIB, '1.0 TiB']
  ])('writes %d bytes as %s', (bytes, text) => {
    expect(sizeText(bytes)).toBe(text);
  });

  it('writes used and total in one unit', () => {
    expect(usageText(0.25 * GIB, 15.75 * GIB)).toBe('0.3 / 15.8 GiB');
  });
});

describe('durationText', () => {
  it.each([
    [0, '0.00 ms'],
    [0.4213, '0.42 ms'],
    [9.996, '10.0 ms'],
    [48.21, '48.2 ms'],
    [99.96, '100 ms'],
    [999.4, '999 ms'],
    [999.6, '1.00 s'],
    [21_400, '21.4 s'],
    [59_960, '1 min'],
    [134_000, '2 min 14 s'],
    [8_040_000, '2 h 14 min'],
    [7_200_000, '2 h'],
    [Number.NaN, '–']
  ])('writes %d ms as %s', (ms, text) => {
    expect(durationText(ms)).toBe(text);
  });
});

describe('secondsText', () => {
  it.each([
    [-5, '0 s'],
    [6_600, '7 s'],
    [59_700, '1 min'],
    [125_000, '2 min 5 s']
  ])('writes %d ms as %s', (ms, text) => {
    expect(secondsText(ms)).toBe(text);
  });
});

describe('countText', () => {
  it.each([
    [0, '0'],
    [999, '999'],
    [18_240, '18,240'],
    [1_234_567, '1,234,567']
  ])('writes %d as %s', (value, text) => {
    expect(countText(value)).toBe(text);
  });
});

describe('countdownText', () => {
  it.each([
    [6_001, '7 s'],
    [1_000, '1 s'],
    [200, '1 s'],
    [-50, '1 s']
  ])('writes %d ms as %s', (ms, text) => {
    expect(countdownText(ms)).toBe(text);
  });
});
