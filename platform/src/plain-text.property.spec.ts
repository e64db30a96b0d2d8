import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forTerminal, forTerminalAsJson, plainText, plainValue } from './plain-text.js';

/** Text of an attacker who tries to control the program that shows it. */
const HOSTILE = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        '\x1b[2J',
        '\x1b]52;c;cm0gLXJmIH4=\x07',
        '\x1b]0;title\x1b\\',
        '\x1bc',
        '\x9b31m',
        '\r\n',
        '\u202e',
        '\u2028',
        '\x1b[31m',
        '\ud800',
        '<img src=x onerror=alert(1)>'
      )
    ),
    { maxLength: 12 }
  )
  .map(parts => parts.join(''));

describe('texts of a remote machine', () => {
  it('are one line without controls, sequences or marks of direction, and bounded', () => {
    fc.assert(
      fc.property(HOSTILE, fc.integer({ min: 1, max: 200 }), (text, max) => {
        const plain = plainText(text, max);
        expect(plain.length).toBeLessThanOrEqual(max);
        expect(plain).not.toMatch(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/);
        expect(Buffer.from(plain).toString()).toBe(plain);
      })
    );
  });

  it('stay unchanged when they are plain', () => {
    expect(plainText('The server on vm-1 does not answer (ECONNRESET), größer 東京 😀.')).toBe(
      'The server on vm-1 does not answer (ECONNRESET), größer 東京 😀.'
    );
  });

  it('are cleaned wherever they stand in a value, and nothing else is changed', () => {
    const value = { a: ['x\x1b[2Jy', 1, null, true], 'k\n': { b: Number.POSITIVE_INFINITY } };
    expect(plainValue(value)).toEqual({ a: ['xy', 1, null, true], 'k ': { b: 0 } });
  });

  it('on a terminal can have colours and lines, and control nothing', () => {
    fc.assert(
      fc.property(HOSTILE, text => {
        const shown = forTerminal(text).replace(/\x1b\[[0-9;:]*m/g, '');
        expect(shown).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/);
      })
    );
    expect(forTerminal('a\x1b[1;31mred\x1b[0m\n\tb\x1b[2J\x1b]0;t\x07')).toBe('a\x1b[1;31mred\x1b[0m\n\tb');
    expect(forTerminal('bold\x1b(B\x1b[m, \x1bPq#0\x1b\\picture')).toBe('bold\x1b[m, picture');
  });

  it('as JSON are the same value, and have no control characters', () => {
    fc.assert(
      fc.property(HOSTILE, text => {
        const json = forTerminalAsJson({ text });
        expect(json).not.toMatch(/[\x00-\x1f\x7f-\x9f\u202a-\u202e]/);
        expect((JSON.parse(json) as { text: string }).text).toBe(JSON.parse(JSON.stringify(text)));
      })
    );
  });
});
