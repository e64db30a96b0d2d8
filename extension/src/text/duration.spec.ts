import { describe, expect, it } from 'vitest';
import { countdownText, countText, durationText, secondsText } from './duration.js';

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
