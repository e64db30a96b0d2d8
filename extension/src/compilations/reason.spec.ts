import type { CompileReason } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { plain } from '../text/marked.js';
import { locationText, reasonPieces } from './reason.js';
const WHERE = { cellId: 'c', executionCount: 7, line: 12, file: null, function: 'fit' };

function reason(fields: Partial<CompileReason>): CompileReason {
  return { verdict: 'shape', argument: null, before: null, after: null, advice: null, ...fields };
}

describe('reasonPieces', () => {
  it('names the old and the new form of each argument, formatted as code', () => {
    const pieces = reasonPieces(reason({ argument: 'x', before: 'f32[16,512]', after: 'f32[11,512]' }));
    expect(plain(pieces)).toBe('argument x was f32[16,512], now f32[11,512]');
    expect(pieces.filter(piece => piece.code).map(piece => piece.text)).toEqual([
      'x',
      'f32[16,512]',
      'f32[11,512]'
    ]);
  });

  it.each([
    [{ verdict: 'static', argument: 'n', before: '3', after: '4' }, 'static argument n was 3, now 4'],
    [
      { verdict: 'sharding', argument: 'x', before: 'P()', after: "P('d')" },
      "sharding of x was P(), now P('d')"
    ],
    [{ verdict: 'tree', argument: 'params' }, 'the structure of argument params changed'],
    [{ verdict: 'dtype' }, 'the type of an argument changed'],
    [{ verdict: 'redefined' }, 'the function was redefined, as when its cell is rerun'],
    [{ verdict: 'other' }, 'for an unknown reason']
  ] as [Partial<CompileReason>, string][])('words %j', (fields, text) => {
    expect(plain(reasonPieces(reason(fields)))).toBe(text);
  });

  it('needs no reason for a first compilation', () => {
    expect(reasonPieces(reason({ verdict: 'first' }))).toEqual([]);
  });

  it('shows values unchanged, whatever they contain', () => {
    const odd = reason({ argument: '%1', before: '<b>', after: '%2 %%' });
    expect(plain(reasonPieces(odd))).toBe('argument %1 was <b>, now %2 %%');
  });
});

describe('locationText', () => {
  it.each([
    [WHERE, 'cell [7] line 12'],
    [{ ...WHERE, line: null }, 'cell [7]'],
    [{ ...WHERE, executionCount: null }, 'cell line 12'],
    [{ ...WHERE, cellId: null, executionCount: null, file: '/home/me/train.py' }, 'train.py line 12'],
    [{ ...WHERE, cellId: null, executionCount: null, file: 'C:\\work\\train.py', line: null }, 'train.py'],
    [{ ...WHERE, cellId: null, executionCount: null }, ''],
    [null, '']
  ])('writes %j', (location, text) => {
    expect(locationText(location)).toBe(text);
  });
});
