// @ts-check
import { describe, expect, it } from 'vitest';
import { compare, findIn, findInFile } from './prose.mjs';
import { RULES } from './prose-rules.mjs';

const rulesIn = (/** @type {string} */ text, file = 'docs/session.md') => [
  ...new Set(findInFile(file, text).map(({ rule }) => rule))
];

describe('the prose lint', () => {
  // One sentence of findings/words.md for each pattern, and its recommended replacement.
  it.each([
    ['place', 'Node 22.21.1, downloaded there.', 'Node 22.21.1, downloaded on train-v6e.'],
    ['of the', 'The machine of the kernel is slow.', "The kernel's machine is slow."],
    ['what clause', 'What a kernel prints is kept.', 'Kernel output is saved.'],
    [
      'also for even',
      'It is connected once it is ready, also if you close it.',
      'It connects even if you close it.'
    ],
    ['pronoun noun', 'checkpoints are those of host 0', 'host 0 writes the checkpoints'],
    ['again', 'The VM was created again.', 'The VM was recreated.'],
    ['is no', 'vm is no Colab runtime', 'vm is not a Colab runtime'],
    ['a for per', '20 ms a step', '20 ms per step'],
    ['software speaks', 'TPULab looks again by itself.', 'TPULab retries automatically.'],
    ['processor', 'two thirds of the processor time', 'two thirds of the CPU time'],
    ['figures', 'where the figures are from', 'the source of the values'],
    ['aphorism', 'They are counted, never dropped silently.', 'They are counted.'],
    ['state word', 'What runs goes on.', 'It continues.'],
    ['glossary', 'Disconnected from the bridge.', 'Disconnected from the server.']
  ])('%s', (rule, wrong, right) => {
    expect(rulesIn(wrong)).toContain(rule);
    expect(rulesIn(right)).toEqual([]);
  });

  it('has an example of each rule above', () => {
    expect([...new Set(RULES.map(({ rule }) => rule))]).toHaveLength(14);
  });

  it('names the line, and reads neither code nor addresses', () => {
    expect(findIn('docs/a.md', 'ok\nThe VM was created again.')).toMatchObject([{ line: 2, rule: 'again' }]);
    expect(rulesIn('```\nthe VM was created again\n```\nSee [x](the-bridge.md) and `the bridge`.')).toEqual(
      []
    );
  });

  it('reads messages of TypeScript, and of a test its titles only', () => {
    const source = "say('The VM was created again.'); import x from './the bridge.js';";
    expect(rulesIn(source, 'extension/src/a.ts')).toEqual(['again']);
    expect(
      rulesIn("it('was created again', () => expect(x).toBe('was run again'));", 'protocol/src/a.spec.ts')
    ).toEqual(['again']);
    expect(rulesIn("expect(x).toBe('was run again');", 'protocol/src/a.spec.ts')).toEqual([]);
    expect(rulesIn('def test_is_created_again():', 'recipes/tests/test_a.py')).toEqual(['again']);
  });

  it('reads the names that code declares, in TypeScript and Python', () => {
    expect(rulesIn('const toldAt = 1; use(toldAt, gone);', 'extension/src/a.ts')).toEqual(['name']);
    expect(rulesIn('class A { #heard = 0; tellAll(): void {} }', 'extension/src/a.ts')).toEqual(['name']);
    expect(rulesIn('const { length: toldCount } = x; const seldom = outlooks;', 'protocol/src/a.ts')).toEqual(
      ['name']
    );
    expect(rulesIn('const reportedAt = told.at;', 'extension/src/a.ts')).toEqual([]);
    expect(rulesIn('def tell_all() -> None:', 'kernel-agent/src/a.py')).toEqual(['name']);
    expect(rulesIn('        self._told = told', 'kernel-agent/src/a.py')).toEqual(['name']);
    expect(rulesIn('        self._reported = told', 'kernel-agent/src/a.py')).toEqual([]);
  });

  it('lets the internals have a gateway, and a user not', () => {
    expect(rulesIn('The gateway stops.', 'docs/architecture.md')).toEqual([]);
    expect(rulesIn('The gateway stops.', 'docs/connect.md')).toEqual(['glossary']);
  });

  it('refuses more findings than the baseline of a file has, and a baseline that is too high', () => {
    const found = new Map([['a.spec.ts', findIn('a.spec.ts', 'It was created again. It was run again.')]]);
    expect(compare({ 'a.spec.ts': 2 }, found)).toEqual([]);
    expect(compare({ 'a.spec.ts': 1 }, found)[0]).toMatch('2 findings instead of 1');
    expect(compare({}, found)).toHaveLength(2);
    expect(compare({ 'a.spec.ts': 3 }, found)).toEqual([expect.stringContaining('--lower')]);
    expect(compare({ 'gone.spec.ts': 1 }, new Map())).toHaveLength(1);
  });
});
