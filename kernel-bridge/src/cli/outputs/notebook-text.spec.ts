import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import fc from 'fast-check';
import { NotebookFormatError, type NotebookOutput, NotebookText } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { inTemporaryFolder } from '../../journal/testing/journal-folder.js';
import { runPython } from '../../outputs/testing/lab-python.js';

const text = fc.string({
  unit: fc.constantFrom(
    'a',
    '\n',
    '\r',
    '\r\n',
    '\u2028',
    '\x0b',
    '\x85',
    '"',
    '\\',
    '🙂',
    'é',
    '\x1b[1m',
    '\t'
  ),
  maxLength: 10
});
const bundle = fc.record(
  {
    'text/plain': text,
    'text/html': text,
    'image/png': fc.base64String({ maxLength: 12 }),
    'image/svg+xml': text,
    'application/javascript': text,
    'application/json': fc.constantFrom({ b: 1, a: [true, null, { d: 'x', c: 2 }] }, [], {}),
    'application/vnd.x+json': fc.constantFrom({ b: { z: 1, y: 2 } }, 'text\nwith lines')
  },
  { requiredKeys: [] }
);
const output: fc.Arbitrary<NotebookOutput> = fc.oneof(
  fc.record({ output_type: fc.constant('stream' as const), name: fc.constantFrom('stdout', 'stderr'), text }),
  fc.record({
    output_type: fc.constant('display_data' as const),
    data: bundle,
    metadata: fc.constantFrom({}, { 'image/png': { width: 3, height: 2 } })
  }),
  fc.record({
    output_type: fc.constant('execute_result' as const),
    data: bundle,
    metadata: fc.constant({}),
    execution_count: fc.oneof(fc.nat(), fc.constant(null))
  }),
  fc.record({
    output_type: fc.constant('error' as const),
    ename: text,
    evalue: text,
    traceback: fc.array(text, { maxLength: 3 })
  })
);
const outputs = fc.array(output, { maxLength: 3 });
const placed = fc.option(fc.record({ outputs, executionCount: fc.option(fc.nat({ max: 1000 })) }), {
  nil: null
});
const notebook = fc.uniqueArray(
  fc.record({ id: fc.stringMatching(/^[a-z0-9-]{1,12}$/), source: text, old: outputs, placed }),
  { selector: ({ id }) => id, maxLength: 4 }
);

describe('outputs written into a notebook', () => {
  it('give byte for byte the file that nbformat writes', async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const cases = fc.sample(notebook, { numRuns: 200, seed });
    await inTemporaryFolder(async folder => {
      const file = path.join(folder, 'cases.json');
      await writeFile(file, JSON.stringify(cases));
      const written = JSON.parse(await runPython('nbformat_oracle.py', ['files', file])) as {
        before: string;
        after: string;
      }[];
      for (const [number, { before, after }] of written.entries()) {
        const read = new NotebookText(before);
        expect(read.codeCells.map(({ id, source }) => ({ id, source }))).toEqual(
          cases[number]!.map(({ id, source }) => ({ id, source: source.replaceAll('\r\n', '\n') }))
        );
        const changes = cases[number]!.flatMap(({ placed: each }, index) =>
          each === null ? [] : [{ index: index + 1, ...each }]
        );
        expect(read.withOutputs(changes), `case ${number} of seed ${seed}`).toBe(after);
      }
    });
  });

  const cell = { id: 'a', cell_type: 'code', execution_count: 1, metadata: {}, outputs: [], source: 'x' };
  const small = { nbformat: 4, nbformat_minor: 5, metadata: { 2: 'b', 1: 'a' }, cells: [cell] };
  const change = {
    index: 0,
    executionCount: 7,
    outputs: [{ output_type: 'stream' as const, name: 'stdout', text: 'a\nb\n' }]
  };

  it.each([
    ['one space', JSON.stringify(small, null, 1)],
    ['two spaces', `${JSON.stringify(small, null, 2)}\n`],
    ['a tab', JSON.stringify(small, null, '\t')],
    ['four spaces and Windows line ends', `${JSON.stringify(small, null, 4)}\n`.replaceAll('\n', '\r\n')],
    ['no indentation', JSON.stringify(small)],
    ['a byte order mark', `\ufeff${JSON.stringify(small, null, 1)}\n`]
  ])('are indented like the file: %s', (_what, before) => {
    const after = new NotebookText(before).withOutputs([change]);
    const indent = /^\r?\n?([ \t]+)"/m.exec(before)?.[1];
    const wanted = {
      ...cell,
      execution_count: 7,
      outputs: [{ name: 'stdout', output_type: 'stream', text: ['a\n', 'b\n'] }]
    };
    const plain = JSON.stringify({ ...small, cells: [wanted] }, null, indent);
    const lines = before.includes('\r\n') ? plain.replaceAll('\n', '\r\n') : plain;
    // The byte order mark is dropped: nbformat, nbclient and papermill cannot read a file with one.
    expect(after).toBe(lines + (/\r?\n$/.exec(before)?.[0] ?? ''));
  });

  it('leave everything else unchanged: numbers, escapes, duplicate keys and odd spaces', () => {
    const before =
      '{"cells" :[ {"outputs":[ 1 ],"cell_type":"code", "execution_count":null,"metadata" :{ },"source":"x\\u00e9", "n":1.0e+2}],\n' +
      ' "metadata":{"big":12345678901234567890,"a":1,"a":2, "esc":"\\u00e9\\/"}, "nbformat": 4, "nbformat_minor":4}';
    const after = new NotebookText(before).withOutputs([{ ...change, outputs: [] }]);
    expect(after).toBe(before.replace('[ 1 ]', '[]').replace('null', '7'));
  });

  it('of no cell leave the file unchanged', () => {
    const before = JSON.stringify(small, null, 1);
    expect(new NotebookText(before).withOutputs([])).toBe(before);
  });
});

it('a notebook of nbformat 3 is read as nbformat converts it', async () => {
  const output = (more: object): object => ({ output_type: 'display_data', metadata: {}, ...more });
  const old = {
    metadata: { name: 'old', signature: 'sha256:1', kept: { a: 1 } },
    nbformat: 3,
    nbformat_minor: 0,
    worksheets: [
      {
        cells: [
          { cell_type: 'heading', level: 2, metadata: {}, source: ['Two\n', 'lines'] },
          { cell_type: 'markdown', metadata: {}, source: 'text' },
          {
            cell_type: 'code',
            collapsed: true,
            input: ['print 1\n', '2'],
            language: 'python',
            metadata: { tags: ['a'] },
            prompt_number: 3,
            outputs: [
              { output_type: 'stream', stream: 'stderr', text: '1\n' },
              {
                output_type: 'pyout',
                prompt_number: 3,
                metadata: { png: { width: 1 } },
                text: '2',
                html: 'b'
              },
              output({ png: 'iVBORw0KGgo=', json: '{"a": [1]}', latex: '$x$', svg: '<svg/>' }),
              { output_type: 'pyerr', ename: 'E', evalue: 'v', traceback: ['t'] }
            ]
          }
        ],
        metadata: {}
      },
      { cells: [{ cell_type: 'raw', metadata: {}, source: 'raw' }], metadata: {} }
    ]
  };
  await inTemporaryFolder(async folder => {
    const file = path.join(folder, 'old.ipynb');
    await writeFile(file, JSON.stringify(old));
    const wanted = JSON.parse(await runPython('nbformat_oracle.py', ['convert', file])) as {
      cells: { id?: string }[];
      metadata: Record<string, unknown>;
    };
    const read = new NotebookText(JSON.stringify(old), { upgrades: true });
    expect(read.oldFormat).toBe(3);
    const content = read.content();
    // One of the two files stores texts as lists of lines.
    const plain = (cells: readonly { id?: string }[]): unknown =>
      JSON.parse(
        JSON.stringify(cells, (key, value: unknown) =>
          key === 'id'
            ? undefined
            : Array.isArray(value) && value.every(each => typeof each === 'string')
              ? value.join('')
              : value
        )
      );
    expect(plain(content.cells)).toEqual(plain(wanted.cells));
    const { orig_nbformat: _, orig_nbformat_minor: __, ...metadata } = wanted.metadata;
    expect(content.metadata).toEqual(metadata);
    const converted = path.join(folder, 'new.ipynb');
    await writeFile(converted, read.withContent(content));
    expect(JSON.parse(await runPython('nbformat_oracle.py', ['validate', converted]))).toEqual([null]);
  });
});

describe('a file that is not a notebook', () => {
  it.each([
    ['an empty file', '', 'not JSON'],
    ['half a file', '[', 'not JSON'],
    ['any other JSON', '{}', 'no nbformat'],
    ['an old notebook', '{"nbformat": 3, "worksheets": []}', 'nbformat 3'],
    ['a cell of no type', '{"nbformat": 4, "cells": [{}]}', 'cell 1 has no cell_type'],
    ['no list of cells', '{"nbformat": 4, "cells": {}}', 'no list of cells'],
    ['a list', '[1, 2]', 'no nbformat'],
    ['a very old notebook', '{"nbformat": 2}', 'nbconvert'],
    ['a notebook of the future', '{"nbformat": 5}', 'TPULab reads 3 and 4'],
    ['JSON with a comma too much', '{"nbformat": 4,\n "cells": [1,]}', 'line 2, column 14'],
    ['deep nesting', `${'['.repeat(2000)}${']'.repeat(2000)}`, 'nested too deeply']
  ])('is refused: %s', (_what, content, why) => {
    expect(() => new NotebookText(content)).toThrow(NotebookFormatError);
    expect(() => new NotebookText(content)).toThrow(why);
  });
});
