import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { valueAt, withValue } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { inTemporaryFolder } from '../../journal/testing/journal-folder.js';
import { KernelStory } from '../../outputs/testing/kernel-story.js';
import { runPython } from '../../outputs/testing/lab-python.js';
import { capture, openWidget } from '../../outputs/testing/random-story.js';
import { runCommand } from '../testing/command-line.js';
import { outputsCommand } from './outputs-command.js';

const KERNEL = '11111111-2222-4333-8444-555555555555';
const STATE = 'application/vnd.jupyter.widget-state+json';

/** One cell shows two widgets, another prints into the first of them, and a third prints into a widget that no cell shows. */
function story(): KernelStory {
  const record = new KernelStory();
  record.cell('show', 'display(out)', 1, id => {
    for (const comm of ['out', 'other', 'hidden']) openWidget(record, id, comm);
    for (const model_id of ['out', 'other']) {
      record.display(id, { 'application/vnd.jupyter.widget-view+json': { model_id, version_major: 2 } });
    }
  });
  const into = (cell: string, comm: string, text: string): void => {
    record.cell(cell, 'print()', 2, id => {
      capture(record, id, comm, id);
      record.stream(id, text);
      capture(record, id, comm, '');
      record.stream(id, 'below the cell\n');
    });
  };
  into('print', 'out', 'into the widget\n');
  into('gone', 'hidden', 'unseen\n');
  return record;
}

/** Runs `tpulab outputs --into` on a notebook with two of the cells and this metadata. */
async function written(
  metadata: object,
  work: (text: string, run: () => Promise<string>) => Promise<void>
): Promise<void> {
  await inTemporaryFolder(async folder => {
    const directory = path.join(folder, 'kernels', KERNEL);
    await mkdir(directory, { recursive: true });
    await story().writeTo(path.join(directory, 'journal'));
    const file = path.join(folder, 'work.ipynb');
    const cells = [
      ['show', 'display(out)'],
      ['print', 'print()']
    ].map(([id, source]) => ({
      cell_type: 'code',
      execution_count: null,
      id,
      metadata: {},
      outputs: [],
      source
    }));
    await writeFile(
      file,
      `${JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }, null, 1)}\n`
    );
    const run = async (): Promise<string> => {
      const { stdout, error } = await runCommand(
        outputsCommand,
        KERNEL,
        '--into',
        file,
        '--state-dir',
        folder
      );
      expect(error).toBeNull();
      return stdout;
    };
    expect(await run()).toMatch(
      /what 1 Output widget captured is in the saved state .*\n.*1 Output widget captured outputs of cells that are not/
    );
    expect(JSON.parse(await runPython('nbformat_oracle.py', ['validate', file]))).toEqual([null]);
    await work(await readFile(file, 'utf8'), run);
  });
}

const CAPTURED = [{ name: 'stdout', output_type: 'stream', text: 'into the widget\n' }];

describe('outputs that a widget has captured', () => {
  it('are in the saved state of the widgets, and not below the cell', () =>
    written({ kernelspec: { display_name: 'x', name: 'x' }, zoom: 1 }, async (text, run) => {
      expect(valueAt(text, ['metadata', 'widgets', STATE])).toEqual({
        state: {
          out: {
            model_module: '@jupyter-widgets/output',
            model_module_version: '1.0.0',
            model_name: 'OutputModel',
            state: { msg_id: '', outputs: CAPTURED }
          }
        },
        version_major: 2,
        version_minor: 0
      });
      const { cells } = JSON.parse(text) as { cells: { outputs: unknown[] }[] };
      expect(cells[1]?.outputs).toEqual([
        { name: 'stdout', output_type: 'stream', text: ['below the cell\n'] }
      ]);
      // Sorted by name, as in nbformat.
      expect(Object.keys(valueAt(text, ['metadata']) as object)).toEqual(['kernelspec', 'widgets', 'zoom']);
      expect(await run()).toContain('nothing was written');
    }));

  it('replace the outputs of an earlier run; other widgets and other state stay byte for byte', () => {
    const outputs = [{ name: 'stdout', output_type: 'stream', text: 'old' }];
    const slider = { model_name: 'SliderModel', state: { value: '1.0' } };
    const models = {
      a: slider,
      out: { model_name: 'OutputModel', state: { layout: 'L', outputs } },
      z: slider
    };
    const metadata = { widgets: { [STATE]: { state: models, version_major: 2, version_minor: 0 } } };
    return written(metadata, async text => {
      const after = valueAt(text, ['metadata']);
      models.out.state.outputs = CAPTURED;
      expect(after).toEqual(metadata);
      return Promise.resolve();
    });
  });
});

describe('a value that is inserted into a JSON text', () => {
  it.each([
    [
      'replaces the one that is there',
      '{\n "a": 1.0,\n "b": {"x":1e3}\n}\n',
      ['b', 'x'],
      '{\n "a": 1.0,\n "b": {"x":[\n   1\n  ]}\n}\n'
    ],
    [
      'comes in the order of names',
      '{\r\n  "a": 1,\r\n  "c": 2\r\n}',
      ['b'],
      '{\r\n  "a": 1,\r\n  "b": [\r\n    1\r\n  ],\r\n  "c": 2\r\n}'
    ],
    ['comes last', '{\n\t"a": 1\n}', ['b'], '{\n\t"a": 1,\n\t"b": [\n\t\t1\n\t]\n}'],
    [
      'gets the objects that it needs',
      '{\n "a": {}\n}',
      ['a', 'b', 'c'],
      '{\n "a": {\n  "b": {\n   "c": [\n    1\n   ]\n  }\n }\n}'
    ],
    ['stays on the one line', '{"a": 1}', ['b'], '{"a": 1, "b": [1]}'],
    ['takes the place of what is no object', '{"a": null}', ['a', 'b'], '{"a": {"b": [1]}}'],
    ['drops the mark at the start, which nbformat cannot read', '\ufeff{"a": 1}', ['a'], '{"a": [1]}']
  ])('%s', (_what, text, at, expected) => {
    expect(withValue(text, at, [1])).toBe(expected);
  });
});
