import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sideBySide } from './side-by-side.js';

const drawn = (mine: string, theirs: string): string[] =>
  sideBySide(mine.split(''), theirs.split('')).map(
    ({ mine: a, theirs: b, isSame }) =>
      `${a === null ? '-' : mine[a]}${isSame ? '=' : '|'}${b === null ? '-' : theirs[b]}`
  );

describe('sideBySide', () => {
  it.each([
    ['abc', 'abc', ['a=a', 'b=b', 'c=c']],
    ['abc', 'axc', ['a=a', 'b|x', 'c=c']],
    ['abc', 'abcd', ['a=a', 'b=b', 'c=c', '-|d']],
    ['xabc', 'abc', ['x|-', 'a=a', 'b=b', 'c=c']],
    ['axbyc', 'abzc', ['a=a', 'x|-', 'b=b', 'y|z', 'c=c']],
    ['', 'a', ['-|a']]
  ])('%s beside %s', (mine, theirs, rows) => {
    expect(drawn(mine, theirs)).toEqual(rows);
  });

  it('contains each line of both once, in order, and pairs only equal lines', () => {
    const letters = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 12 });
    fc.assert(
      fc.property(letters, letters, (mine, theirs) => {
        const rows = sideBySide(mine, theirs);
        const found = (side: 'mine' | 'theirs') => rows.map(row => row[side]).filter(at => at !== null);
        expect(found('mine')).toEqual(mine.map((_, at) => at));
        expect(found('theirs')).toEqual(theirs.map((_, at) => at));
        for (const row of rows) if (row.isSame) expect(mine[row.mine!]).toBe(theirs[row.theirs!]);
      })
    );
  });

  it('stays fast when everything differs', () => {
    const many = (letter: string) => Array.from({ length: 3_000 }, (_, at) => `${letter}${at}`);
    expect(sideBySide(many('a'), many('b'))).toHaveLength(3_000);
  });
});
