import { describe, expect, it } from 'vitest';
import { byteTicks, byteTickText } from './byte-ticks.js';

const GIB = 2 ** 30;

describe('ticks of an axis of bytes', () => {
  it.each([
    ['16 GiB, room for three', 16, 3, ['0', '8 GiB', '16 GiB']],
    ['16 GiB, room for five', 16, 5, ['0', '4 GiB', '8 GiB', '12 GiB', '16 GiB']],
    ['what the compiler leaves of a v5e', 15.75, 3, ['0', '8 GiB']],
    ['the 95 GiB of a v5p', 95, 3, ['0', '32 GiB', '64 GiB']],
    ['less than a GiB', 0.5, 3, ['0', '256 MiB', '512 MiB']],
    ['a TiB', 1_024, 3, ['0', '512 GiB', '1 TiB']]
  ])('are round in binary units: %s', (_, gib, most, texts) => {
    expect(byteTicks(0, gib * GIB, most).map(byteTickText)).toEqual(texts);
  });

  it('are never more than fit, whatever the range', () => {
    for (let bytes = 1; bytes < 2 ** 45; bytes *= 1.37) {
      for (const most of [2, 3, 4, 7]) {
        const ticks = byteTicks(0, bytes, most);
        expect([bytes, most, ticks.length <= most]).toEqual([bytes, most, true]);
        expect(ticks[0]).toBe(0);
        expect(ticks.at(-1)).toBeLessThanOrEqual(bytes);
      }
    }
  });

  it('begin within a range that does not begin at 0', () => {
    expect(byteTicks(3 * GIB, 9 * GIB, 4)).toEqual([4 * GIB, 6 * GIB, 8 * GIB]);
  });

  it('are a single tick for an empty range', () => {
    expect(byteTicks(GIB, GIB, 3)).toEqual([GIB]);
  });
});
