// @ts-check
import { describe, expect, it } from 'vitest';
import {
  NOTEBOOK_LIMIT,
  codeHash,
  findForbidden,
  findNotebookOutputs,
  findPrintedSources
} from './tracked-files.mjs';

describe('tracked files', () => {
  it('accepts ordinary text', () => {
    expect(findForbidden('a.md', 'see ~/.local/state, /usr/bin/chromium and /home/you/notes')).toEqual([]);
  });

  it('finds paths of one machine and registry addresses, with their line', () => {
    expect(findForbidden('a.ts', "ok\nconst p = '/home/jane/work';")).toEqual([
      { path: 'a.ts', line: 2, what: 'a path of one machine' }
    ]);
    expect(findForbidden('x.lock', '"resolved": "https://registry.npmjs.org/x"')).toHaveLength(1);
  });

  it('finds enums, and not the word', () => {
    expect(findForbidden('a.ts', 'export enum Color {')).toHaveLength(1);
    expect(findForbidden('a.ts', 'declare const enum Color {')).toHaveLength(1);
    expect(findForbidden('a.ts', "'enum Color {'\nconst enumerated = {};")).toEqual([]);
  });

  const cell = { cell_type: 'code', source: ['print(1)\n', 'print(2)'], execution_count: null };
  const stream = { output_type: 'stream', name: 'stdout', text: '1\n2\n' };

  /** @param {object} changes to the one cell that has outputs @param {string} [outputsOf] */
  const problemsOf = (changes, outputsOf = codeHash([cell])) =>
    findNotebookOutputs(
      'a.ipynb',
      JSON.stringify({
        metadata: { tpulab: { outputs_of: outputsOf } },
        cells: [
          { cell_type: 'markdown', source: 'text' },
          { ...cell, outputs: [stream], ...changes }
        ]
      })
    ).map(({ line, what }) => `${line}: ${what}`);

  it('accepts a notebook with the outputs of its own code', () => {
    expect(problemsOf({})).toEqual([]);
    expect(problemsOf({ outputs: [] }, '')).toEqual([]);
  });

  it('hashes code the same however it is stored, and not the text around it', () => {
    const stored = [
      { cell_type: 'markdown', source: 'x' },
      { cell_type: 'code', source: 'print(1)\nprint(2)' }
    ];
    expect(codeHash(stored)).toBe(codeHash([cell]));
    // In the form that tests/refresh_notebooks.py writes.
    expect(codeHash(stored)).toBe('22a5a25d40baed887195ee64cc4829af234b62db7abe498a4d663bf02e5a0190');
  });

  it('finds outputs of other code', () => {
    expect(problemsOf({ source: 'print(3)' })).toEqual([expect.stringContaining('npm run notebooks')]);
    expect(problemsOf({}, '')).toEqual([expect.stringContaining('outputs of other code')]);
  });

  it('finds execution counts and errors', () => {
    expect(problemsOf({ execution_count: 3 })).toEqual([expect.stringContaining('2: an execution count')]);
    const error = { output_type: 'error', ename: 'ValueError', evalue: '', traceback: [] };
    expect(problemsOf({ outputs: [error] })).toEqual(['2: the error of a notebook cell (line = cell)']);
  });

  it.each(['/root/x', '/tmp/tmpabc/run', '/home/jane/a', '<object at 0x7f31aa5511d0>'])(
    'finds text that identifies the machine in an output: %s',
    text => {
      expect(problemsOf({ outputs: [{ ...stream, text }] })).toEqual([
        expect.stringMatching(/^2: ".*" in the output/)
      ]);
    }
  );

  it('finds a notebook that has become too large', () => {
    const text = 'x'.repeat(NOTEBOOK_LIMIT);
    expect(problemsOf({ outputs: [{ ...stream, text }] })).toEqual([expect.stringContaining('more than')]);
  });

  describe('sources that a notebook prints', () => {
    const step = ['    @compiled', '    def step(self):', '        a = 1', '', '        return a'];
    const recipe = [
      'def loss(x):',
      '    return x',
      '',
      'class T:',
      ...step,
      '',
      '    def other(self): ...',
      ''
    ];
    const printed = 'def loss(x):\n    return x\n\n@compiled\ndef step(self):\n    a = 1\n\n    return a\n';

    /** @param {string} today the recipe @param {string} [source] of the cell */
    const older = (today, source = 'show_source(loss, T.step)') => {
      const cells = [{ source, outputs: [{ data: { 'text/plain': printed } }] }];
      return findPrintedSources('a.ipynb', JSON.stringify({ cells }), ['other = 1\n', today]).map(
        ({ line, what }) => `${line}: ${what.slice(0, what.indexOf(' as no'))}`
      );
    };

    it('pass while a recipe has them, at any depth', () => {
      expect(older(recipe.join('\n'))).toEqual([]);
      expect(older('', 'print(loss)')).toEqual([]);
      expect(
        findPrintedSources('a.ipynb', JSON.stringify({ cells: [{ source: 'show_source(loss)' }] }), [])
      ).toEqual([]);
    });

    // Notebook 05 printed a loss that did not mirror its images yet: the cells' own hash was right.
    it.each([
      ['a line in the middle', recipe.join('\n').replace('a = 1', 'a = 2')],
      ['a line at the end', recipe.join('\n').replace('return a', 'return a\n        print(a)')],
      ['a decorator', recipe.join('\n').replace('@compiled', '@eager')]
    ])('are found when %s has changed', (_what, today) => {
      expect(older(today)).toEqual(['1: "@compiled"']);
    });
  });
});
