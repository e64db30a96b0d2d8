import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromBackticks, plain } from './marked.js';

const code = (text: string): string[] =>
  fromBackticks(text)
    .filter(piece => piece.code)
    .map(piece => piece.text);

describe('fromBackticks', () => {
  it('treats text between two backticks as code', () => {
    expect(fromBackticks('Give `images` one shape: each new one compiles `step`.')).toEqual([
      { text: 'Give ', code: false },
      { text: 'images', code: true },
      { text: ' one shape: each new one compiles ', code: false },
      { text: 'step', code: true },
      { text: '.', code: false }
    ]);
  });

  it('finds code at either end', () => {
    expect(fromBackticks('`jit`')).toEqual([{ text: 'jit', code: true }]);
    expect(code("`x['a']` and `y`")).toEqual(["x['a']", 'y']);
  });

  it('leaves backticks without a partner or with nothing between them', () => {
    expect(code('one ` alone')).toEqual([]);
    expect(plain(fromBackticks('one ` alone'))).toBe('one ` alone');
    expect(plain(fromBackticks('nothing `` here'))).toBe('nothing `` here');
    expect(fromBackticks('')).toEqual([]);
  });

  it('loses nothing but the backticks around code', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('`', 'a', ' ', '<') }), text => {
        const again = fromBackticks(text).map(piece => (piece.code ? `\`${piece.text}\`` : piece.text));
        expect(again.join('')).toBe(text);
      })
    );
  });
});
