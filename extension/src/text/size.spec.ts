import { describe, expect, it } from 'vitest';
import { sizeText, usageText } from './size.js';

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
