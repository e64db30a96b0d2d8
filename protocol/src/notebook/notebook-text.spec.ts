import { describe, expect, it } from 'vitest';
import { chooseKernel, kernelOf } from './kernel-choice.js';
import { newText, NotebookFormatError, NotebookText } from './notebook-text.js';

type Cell = Record<string, unknown>;
const code = (source: string, more: Cell = {}): Cell => ({
  cell_type: 'code',
  execution_count: null,
  metadata: {},
  outputs: [],
  source,
  ...more
});
const notebook = (cells: readonly Cell[], more: object = {}): string =>
  JSON.stringify({ cells, metadata: {}, nbformat: 4, nbformat_minor: 5, ...more }, null, 1);
const stream = (text: string) => ({ output_type: 'stream' as const, name: 'stdout', text });
const cellsOf = (text: string): Cell[] => (JSON.parse(text) as { cells: Cell[] }).cells;

describe('cells whose ids are missing or duplicated', () => {
  it('get ids that are the same at each reading, and valid ids stay', () => {
    const text = notebook([
      code('run()', { id: 'a' }),
      code('run()', { id: 'a' }),
      code('x'),
      code('x'),
      code('y', { id: '' })
    ]);
    const ids = new NotebookText(text).codeCells.map(({ id }) => id);
    expect(ids[0]).toBe('a');
    expect(new Set(ids).size).toBe(5);
    expect(new NotebookText(text).codeCells.map(({ id }) => id)).toEqual(ids);
    expect(new NotebookText(text).content().cells.map(({ id }) => id)).toEqual(ids);
    for (const id of ids) expect(id).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
  });

  it('each keep their own outputs, and the file then has the ids', () => {
    const text = notebook([code('x', { id: 'a' }), code('x', { id: 'a' }), code('x')]);
    const outputs = [0, 1, 2].map(index => ({
      index,
      executionCount: index + 1,
      outputs: [stream(`${index}`)]
    }));
    const after = new NotebookText(text).withOutputs(outputs);
    const cells = cellsOf(after);
    expect(cells.map(cell => JSON.stringify(cell['outputs']))).toEqual(
      ['0', '1', '2'].map(each => JSON.stringify([{ name: 'stdout', output_type: 'stream', text: [each] }]))
    );
    expect(new Set(cells.map(({ id }) => id)).size).toBe(3);
    expect(new NotebookText(after).codeCells.map(({ id }) => id)).toEqual(cells.map(({ id }) => id));
  });

  it('are not written into a notebook of nbformat 4.4, whose format has none', () => {
    const text = notebook([code('x')], { nbformat_minor: 4 });
    const after = new NotebookText(text).withOutputs([{ index: 0, executionCount: 1, outputs: [] }]);
    expect(cellsOf(after)[0]).not.toHaveProperty('id');
  });
});

describe('a file that other programs have to read', () => {
  it('with NaN is read, and written as valid JSON', () => {
    const text = notebook([code('x', { id: 'a' })], { metadata: { score: 0.5 } }).replace(
      '0.5',
      '[NaN, -Infinity, Infinity, "NaN"]'
    );
    const read = new NotebookText(text);
    expect(read.metadata()).toEqual({ score: [null, null, null, 'NaN'] });
    const after = read.withOutputs([{ index: 0, executionCount: 1, outputs: [stream('a')] }]);
    expect(JSON.parse(after)).toMatchObject({ metadata: { score: [null, null, null, 'NaN'] } });
    // A text that is only read is not repaired.
    expect(read.withOutputs([])).toBe(text);
  });

  it('without outputs, counts and metadata is read, and written complete', () => {
    const text = notebook([
      { cell_type: 'code', source: 'x', id: 'a' },
      { cell_type: 'code', id: 'b' }
    ]);
    const read = new NotebookText(text);
    expect(read.content().cells[1]).toMatchObject({ source: '', outputs: [], metadata: {} });
    const after = read.withOutputs([{ index: 0, executionCount: 1, outputs: [stream('a')] }]);
    expect(cellsOf(after)[0]).toMatchObject({ execution_count: 1, source: 'x' });
    expect(cellsOf(after)[1]).toMatchObject({ execution_count: null, outputs: [], metadata: {}, source: [] });
  });

  it('without metadata and minor version is written with both, and with ids', () => {
    const text = JSON.stringify({ nbformat: 4, cells: [{ cell_type: 'markdown', source: 'a' }, code('x')] });
    const read = new NotebookText(text);
    const content = read.content();
    content.cells.at(-1)!['source'] = 'y';
    const after = read.withOutputs([{ index: 1, executionCount: 1, outputs: [stream('a')] }]);
    for (const written of [after, read.withContent(content)]) {
      expect(JSON.parse(written)).toMatchObject({ metadata: {}, nbformat: 4, nbformat_minor: 5 });
      expect(cellsOf(written)).toMatchObject(content.cells.map(({ id }) => ({ id, metadata: {} })));
    }
  });

  it('contains no lone surrogate, whether it was printed or was in the file before', () => {
    const text = notebook([
      code('x', { id: 'a' }),
      code('y', { id: 'b', outputs: [stream('\ud83d end 😀')] })
    ]);
    const after = new NotebookText(text).withOutputs([
      { index: 0, executionCount: 1, outputs: [stream('a\ud83d \\ud83d 😀')] }
    ]);
    expect(JSON.stringify(cellsOf(after)[0])).toContain('a\ufffd \\\\ud83d 😀');
    expect(JSON.stringify(cellsOf(after)[1])).toContain('\ufffd end 😀');
    expect(newText({ cells: [code('\udc00')] })).toContain('\ufffd');
  });
});

describe('the text that the page saves', () => {
  const odd =
    '{\r\n  "zoo": 1.50,\r\n  "cells": [\r\n    {"cell_type": "code", "execution_count": null, "id": "a", "ours": {"x": 1e2},' +
    ' "metadata": {"z": 1, "a": 2}, "outputs": [], "source": ["x\\n", "y"]},\r\n    {"cell_type": "markdown",' +
    ' "id": "b", "metadata": {}, "source": "# \\u00e9"}\r\n  ],\r\n' +
    '  "metadata": {"orig_nbformat": 2, "kernelspec": {"name": "ir", "display_name": "R"}},\r\n  "nbformat": 4,\r\n  "nbformat_minor": 5\r\n}\r\n';

  it('is the file, byte for byte, if nothing has changed', () => {
    const read = new NotebookText(odd);
    const content = read.content();
    // JupyterLab's model adds this field.
    content.metadata['language_info'] = { name: '' };
    expect(read.withContent(content)).toBe(odd);
  });

  it('differs only in the changed parts', () => {
    const read = new NotebookText(odd);
    const content = read.content();
    content.cells[0]['source'] = 'x\nz';
    expect(read.withContent(content)).toBe(
      odd.replace('["x\\n", "y"]', '[\r\n        "x\\n",\r\n        "z"\r\n      ]')
    );
    const { cells } = content;
    content.cells = [{ id: 'c', ...code('new') }, cells[1], cells[0]];
    const after = read.withContent(content);
    expect(after).toContain('"ours": {"x": 1e2}');
    expect(after).toContain('"zoo": 1.50');
    expect(cellsOf(after).map(({ id }) => id)).toEqual(['c', 'b', 'a']);
    expect(after.replaceAll('\r\n', '')).not.toContain('\n');
  });

  it('omits removed cells, and can change the type of a cell', () => {
    const text = notebook([code('x', { id: 'a', ours: 1 }), code('y', { id: 'b' })], {
      metadata: { a: 1, b: 2 }
    });
    const read = new NotebookText(text);
    const content = read.content();
    content.cells = [{ id: 'a', cell_type: 'markdown', metadata: {}, source: 'x' }];
    delete content.metadata['a'];
    expect(JSON.parse(read.withContent(content))).toEqual({
      cells: [{ id: 'a', cell_type: 'markdown', metadata: {}, ours: 1, source: 'x' }],
      metadata: { b: 2 },
      nbformat: 4,
      nbformat_minor: 5
    });
  });

  it('has ids from then on in a notebook of nbformat 4.2', () => {
    const read = new NotebookText(notebook([code('x'), code('x')], { nbformat_minor: 2 }));
    const after = read.withContent(read.content());
    expect(JSON.parse(after)).toMatchObject({ nbformat_minor: 5 });
    expect(cellsOf(after).map(({ id }) => id)).toEqual(read.codeCells.map(({ id }) => id));
  });

  it('keeps the line ends of Windows in cells, which editors do not have', () => {
    const mixed = 'one\r\ntwo\nthree';
    const text = notebook([code('a = 1\r\nb = 2\r\n', { id: 'a' }), code(mixed, { id: 'b' })]);
    const read = new NotebookText(text);
    const content = read.content();
    expect(content.cells.map(({ source }) => source)).toEqual(['a = 1\nb = 2\n', 'one\ntwo\nthree']);
    expect(read.codeCells.map(({ source }) => source)).toEqual(content.cells.map(({ source }) => source));
    expect(read.withContent(content)).toBe(text);
    content.cells[0]['source'] = 'a = 1\nb = 3\n';
    const [changed, same] = cellsOf(read.withContent(content));
    expect(changed['source']).toEqual(['a = 1\r\n', 'b = 3\r\n']);
    expect(same['source']).toBe(mixed);
  });

  it('differs in no cell that JupyterLab only states differently: hidden outputs, trust, and no count', () => {
    const cells = [{ collapsed: true }, { jupyter: { outputs_hidden: false, x: 1 } }, { trusted: false }];
    const count = { execution_count: 0 };
    const text = notebook(cells.map((metadata, at) => code('x', { id: `${at}`, metadata, ...count })));
    const content = new NotebookText(text).content();
    content.cells[0]['metadata'] = { collapsed: true, jupyter: { outputs_hidden: true } };
    content.cells[1]['metadata'] = { collapsed: false, jupyter: { outputs_hidden: false, x: 1 } };
    content.cells[2]['metadata'] = {};
    for (const cell of content.cells) cell['execution_count'] = null;
    expect(new NotebookText(text).withContent(content)).toBe(text);
    content.cells[0]['metadata'] = { collapsed: false, jupyter: { outputs_hidden: false } };
    expect(cellsOf(new NotebookText(text).withContent(content))[0]).toMatchObject({
      metadata: { collapsed: false }
    });
  });

  it('with a value that JupyterLab fails on is shown without it, and does not change in the file', () => {
    const text = notebook([code('x', { id: 'a', metadata: { collapsed: true, jupyter: 'invalid' } })]);
    const content = new NotebookText(text).content();
    expect(content.cells[0]['metadata']).toEqual({ collapsed: true });
    content.cells[0]['metadata'] = { collapsed: true, jupyter: { outputs_hidden: true } };
    expect(new NotebookText(text).withContent(content)).toBe(text);
  });

  it('of a type that JupyterLab does not know stays of that type', () => {
    const text = notebook([{ cell_type: 'sos', id: 'a', metadata: {}, source: 'x' }]);
    const content = new NotebookText(text).content();
    content.cells[0]['cell_type'] = 'raw';
    expect(new NotebookText(text).withContent(content)).toBe(text);
  });
});

describe('a text of megabytes', () => {
  it('with escapes, quotes and brackets is read', () => {
    const source = `"\\ [{ \\" ${'x\\"'.repeat(400_000)}\\`;
    expect(new NotebookText(notebook([code(source, { id: 'a' })])).codeCells[0].source).toBe(source);
  });
  it('without an end is refused', () => {
    expect(() => new NotebookText(`{"a": "${'x'.repeat(1_000_000)}`)).toThrow(NotebookFormatError);
  });
});

describe("a notebook's kernel", () => {
  const there = new Map([
    ['tpulab-jax', 'python'],
    ['bash', 'bash'],
    ['mypy', 'python']
  ]);
  const choice = (kernelspec?: object, language?: string): unknown => {
    const metadata = {
      ...(kernelspec && { kernelspec }),
      ...(language && { language_info: { name: language } })
    };
    const found = chooseKernel(kernelOf(metadata), there, 'tpulab-jax');
    return found.kind === 'found' ? found.name : 'missing';
  };

  it.each([
    ['is the one that it names', { name: 'bash' }, undefined, 'bash'],
    ['in whatever letters', { name: 'BASH' }, undefined, 'bash'],
    ['is the default where it names none', undefined, undefined, 'tpulab-jax'],
    [
      'is the default for Python under the name of another machine',
      { name: 'python3' },
      undefined,
      'tpulab-jax'
    ],
    ['likewise where only the language says so', { name: 'research' }, 'python', 'tpulab-jax'],
    ['is one of the same language', { name: 'sh', language: 'bash' }, undefined, 'bash'],
    ['is never one of another language', { name: 'ir', display_name: 'R' }, 'R', 'missing'],
    ['is never guessed', { name: 'ir' }, undefined, 'missing'],
    ['is no other environment of ours', { name: 'tpulab-torch-xla' }, 'python', 'missing']
  ])('%s', (_what, kernelspec, language, wanted) => {
    expect(choice(kernelspec, language)).toBe(wanted);
  });
});

describe('outputs whose texts are lists of lines', () => {
  const data = { 'text/html': ['<b>\n', 'x'], 'application/json': ['a', 'b'], 'image/png': ['iVB\n', 'OR'] };
  const outputs = [
    { output_type: 'stream', name: 'stdout', text: ['a\n', 'b\n'] },
    { output_type: 'display_data', metadata: {}, data },
    { output_type: 'error', ename: 'E', evalue: '', traceback: ['one', 'two'] }
  ];
  const cell = { cell_type: 'code', id: 'c', metadata: {}, source: [], execution_count: 1, outputs };
  const file = JSON.stringify({ cells: [cell], metadata: {}, nbformat: 4, nbformat_minor: 5 }, null, 1);

  it('are read as nbformat reads them, and change nothing in the file', () => {
    const notebook = new NotebookText(file);
    const content = notebook.content();
    expect(content.cells[0]?.['outputs']).toEqual([
      { output_type: 'stream', name: 'stdout', text: 'a\nb\n' },
      {
        output_type: 'display_data',
        metadata: {},
        data: { 'text/html': '<b>\nx', 'application/json': ['a', 'b'], 'image/png': 'iVB\nOR' }
      },
      outputs[2]
    ]);
    expect(notebook.withContent(content)).toBe(file);
  });

  it('without the fields that readers expect are shown, and stay in the file until the cell is run', () => {
    const odd = [null, 5, { output_type: 'pyout' }, { output_type: 'stream' }, { output_type: 'error' }];
    const data = { output_type: 'display_data', data: null };
    const text = notebook([
      code('x', { id: 'a', outputs: [...odd, data] }),
      code('y', { id: 'b', outputs: null })
    ]);
    const read = new NotebookText(text);
    const content = read.content();
    expect(content.cells.map(({ outputs: shown }) => shown)).toEqual([
      [
        { output_type: 'stream', name: 'stdout', text: '' },
        { output_type: 'error', ename: '', evalue: '', traceback: [] },
        { output_type: 'display_data', data: {}, metadata: {} }
      ],
      []
    ]);
    expect(read.withContent(content)).toBe(text);
  });
});
