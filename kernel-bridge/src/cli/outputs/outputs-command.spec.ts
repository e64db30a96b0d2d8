import { execFileSync } from 'node:child_process';
import {
  lstat,
  mkdir,
  readdir,
  readFile,
  stat,
  symlink,
  utimes,
  writeFile,
  chmod,
  rm
} from 'node:fs/promises';
import path from 'node:path';
import { FormatRegistry } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { OutputsPage } from '@tpulab/protocol';
import { beforeAll, describe, expect, it } from 'vitest';
import { inTemporaryFolder } from '../../journal/testing/journal-folder.js';
import { KernelStory, segmentsOf } from '../../outputs/testing/kernel-story.js';
import { runPython } from '../../outputs/testing/lab-python.js';
import { type Ran, runCommand } from '../testing/command-line.js';
import { BACKUP_SUFFIX, NotebookFile } from './notebook-file.js';
import { outputsCommand } from './outputs-command.js';
import { printable } from './outputs-command.js';

const KERNEL = '11111111-2222-4333-8444-555555555555';
const OTHER = '11112222-2222-4333-8444-555555555555';

beforeAll(() => {
  FormatRegistry.Set('date-time', text => !Number.isNaN(Date.parse(text)));
});

/** A state folder without a gateway. */
class State {
  constructor(readonly folder: string) {}

  async kernel(id: string, story: KernelStory): Promise<void> {
    const directory = path.join(this.folder, 'kernels', id);
    await mkdir(directory, { recursive: true });
    await story.writeTo(path.join(directory, 'journal'));
  }

  run(...args: readonly string[]): Promise<Ran> {
    return runCommand(outputsCommand, ...args, '--state-dir', this.folder);
  }

  async notebook(cells: readonly object[], name = 'work.ipynb'): Promise<string> {
    const file = path.join(this.folder, name);
    const whole = cells.map(cell => ({
      cell_type: 'code',
      execution_count: null,
      metadata: {},
      outputs: [],
      ...cell
    }));
    const notebook = { cells: whole, metadata: {}, nbformat: 4, nbformat_minor: 5 };
    await writeFile(file, `${JSON.stringify(notebook, null, 1)}\n`);
    return file;
  }
}

function inState(work: (state: State) => Promise<void>): Promise<void> {
  return inTemporaryFolder(folder => work(new State(folder)));
}

function story(): KernelStory {
  const record = new KernelStory();
  record.cell('a', 'print(1)', 1, id => record.stream(id, 'one\n'));
  record.cell('b', 'plot()', 2, id => {
    record.display(id, { 'text/plain': '<Figure>', 'image/png': Buffer.alloc(12_000).toString('base64') });
    record.iopub(id, 'error', { ename: 'E', evalue: 'v', traceback: ['\x1b[31mE\x1b[0m: v'] });
  });
  return record;
}

interface Cell {
  readonly outputs: unknown[];
  readonly execution_count: number | null;
}

async function cellsOf(file: string): Promise<Cell[]> {
  const valid = JSON.parse(await runPython('nbformat_oracle.py', ['validate', file])) as unknown[];
  expect(valid).toEqual([null]);
  return (JSON.parse(await readFile(file, 'utf8')) as { cells: Cell[] }).cells;
}

describe('tpulab outputs', () => {
  it('prints the outputs by cell, and names the outputs that a terminal cannot show', () =>
    inState(async state => {
      await state.kernel(KERNEL, story());
      const { stdout } = await state.run(KERNEL);
      const lines = stdout.split('\n').map(line => line.replace(/ {2}\d+(\.\d+)? m?s$/, ''));
      expect(lines).toEqual([
        '── cell a  [1]  ok',
        'one',
        '── cell b  [2]  ok',
        '<Figure>',
        '[image/png 11.7 KiB]',
        'E: v',
        ''
      ]);
    }));

  it('prints JSON as the protocol defines it, all pages joined', () =>
    inState(async state => {
      const record = new KernelStory();
      for (let n = 0; n < 450; n++) record.cell(`c${n}`, `${n}`, n);
      await state.kernel(KERNEL, record);
      const page: unknown = JSON.parse((await state.run(KERNEL, '--json')).stdout);
      expect([...Value.Errors(OutputsPage, page)]).toEqual([]);
      expect(page).toMatchObject({
        kernelId: KERNEL,
        alive: false,
        nextAfter: null,
        until: record.messages.length
      });
      expect((page as OutputsPage).executions).toHaveLength(450);
    }));

  it('shows one cell on request, and reports a cell that was never executed', () =>
    inState(async state => {
      await state.kernel(KERNEL, story());
      expect((await state.run(KERNEL, '--cell', 'a')).stdout).not.toContain('cell b');
      expect((await state.run(KERNEL, '--cell', 'z')).error).toMatchObject({ code: 'cell_unknown' });
    }));

  it('finds the kernel by the beginning of its id and by its notebook', () =>
    inState(async state => {
      await state.kernel(KERNEL, story());
      await state.kernel(OTHER, new KernelStory());
      const sessions = [{ path: 'lessons/one.ipynb', kernelId: KERNEL }];
      await writeFile(path.join(state.folder, 'sessions.json'), JSON.stringify({ version: 1, sessions }));
      for (const requested of [
        '11111111',
        'lessons/one.ipynb',
        '/home/me/lessons/one.ipynb',
        KERNEL.toUpperCase()
      ]) {
        expect((await state.run(requested)).stdout, requested).toContain('cell a');
      }
      expect((await state.run('1111')).error).toMatchObject({ code: 'kernel_ambiguous' });
      for (const requested of ['2', 'two.ipynb', 'one.ipynb', '']) {
        expect((await state.run(requested)).error, requested).toMatchObject({ code: 'kernel_unknown' });
      }
    }));

  it('cuts very long output, and prints all of it on request', () =>
    inState(async state => {
      const record = new KernelStory();
      const lines = Array.from({ length: 5000 }, (_, n) => `line ${n}\n`);
      record.cell('a', 'x', 1, id => lines.forEach(line => record.stream(id, line)));
      await state.kernel(KERNEL, record);
      const cut = (await state.run(KERNEL, '--max-bytes', '4096')).stdout;
      expect(cut.length).toBeLessThan(6000);
      expect(cut).toMatch(/\[tpulab: \d\d\.\d KiB of text left out here; /);
      expect((await state.run(KERNEL, '--max-bytes', '0')).stdout).toContain(lines.join(''));
      expect((await state.run(KERNEL, '--max-bytes', '5')).error).toMatchObject({
        code: 'commander.invalidArgument'
      });
    }));

  it('reports a damaged end when no record can follow', () =>
    inState(async state => {
      const record = new KernelStory();
      const id = record.request('long()', { cellId: 'a' });
      record.begin(id, 'long()', 1);
      for (let n = 0; n < 9; n++) record.stream(id, `line ${n}\n`);
      await state.kernel(KERNEL, record);
      const [segment] = await segmentsOf(path.join(state.folder, 'kernels', KERNEL, 'journal'));
      const bytes = await readFile(segment!);
      bytes.fill(0, bytes.length - 200);
      await writeFile(segment!, bytes);
      const { stdout } = await state.run(KERNEL);
      expect(stdout).toContain('line 5');
      expect(stdout).toContain('1 gap');
      expect(stdout).toMatch(/\[tpulab\] .*missing here/);
    }));

  it('leaves the files of the kernel as they are', () =>
    inState(async state => {
      await state.kernel(KERNEL, story());
      await state.run(KERNEL);
      expect(await readdir(path.join(state.folder, 'kernels', KERNEL))).toEqual(['journal']);
    }));
});

describe('tpulab outputs --into', () => {
  it('writes outputs and counts into the cells whose code was run, and stores a copy of the earlier file', () =>
    inState(async state => {
      await state.kernel(KERNEL, story());
      const file = await state.notebook([
        { id: 'a', source: 'print(1)' },
        { id: 'b', source: 'plot(2)', outputs: [{ output_type: 'stream', name: 'stdout', text: 'old' }] },
        { id: 'c', source: 'never()' },
        { id: 'm', cell_type: 'raw', source: '', execution_count: undefined, outputs: undefined }
      ]);
      const before = await readFile(file, 'utf8');
      const { stdout, error } = await state.run(KERNEL, '--into', file);
      expect(error).toBeNull();
      expect(stdout).toContain('outputs of 1 cell written, 1 cell not run.');
      expect(stdout).toContain('cell b: its code has changed since the run; skipped');
      const [a, b, c] = await cellsOf(file);
      expect(a).toMatchObject({ execution_count: 1, outputs: [{ name: 'stdout', text: ['one\n'] }] });
      expect(b).toMatchObject({ execution_count: null, outputs: [{ text: 'old' }] });
      expect(c).toMatchObject({ execution_count: null, outputs: [] });
      expect(await readFile(`${file}${BACKUP_SUFFIX}`, 'utf8')).toBe(before);
      expect((await state.run(KERNEL, '--into', file)).stdout).toContain('nothing was written');
    }));

  it('writes into a changed cell with --force, and into one cell only with --cell', () =>
    inState(async state => {
      await state.kernel(KERNEL, story());
      const file = await state.notebook([
        { id: 'a', source: 'print(1)' },
        { id: 'b', source: 'plot(2)' }
      ]);
      await state.run(KERNEL, '--into', file, '--force', '--cell', 'b', '--no-backup');
      const [a, b] = await cellsOf(file);
      expect(a?.outputs).toEqual([]);
      expect(b?.outputs).toMatchObject([
        { output_type: 'display_data' },
        { output_type: 'error', ename: 'E' }
      ]);
      expect(await readdir(state.folder)).toEqual(['kernels', 'work.ipynb']);
    }));

  it('reports planned changes with --dry-run, and changes nothing', () =>
    inState(async state => {
      await state.kernel(KERNEL, story());
      const file = await state.notebook([{ id: 'a', source: 'print(1)' }]);
      const before = await readFile(file);
      const { stdout } = await state.run(KERNEL, '--into', file, '--dry-run', '--json');
      expect(JSON.parse(stdout)).toEqual({
        kernelId: KERNEL,
        notebook: file,
        written: false,
        backup: null,
        cells: [{ cell: 'a', index: 0, placement: 'written', state: 'ok' }],
        widgets: []
      });
      expect(await readFile(file)).toEqual(before);
      expect(await readdir(state.folder)).toEqual(['kernels', 'work.ipynb']);
    }));

  it('uses the newest run that has started, and its outputs so far', () =>
    inState(async state => {
      const record = story();
      const id = record.request('print(1)', { cellId: 'a' });
      record.begin(id, 'print(1)', 3);
      record.stream(id, 'again\n');
      record.request('plot()', { cellId: 'b' });
      await state.kernel(KERNEL, record);
      const file = await state.notebook([
        { id: 'a', source: 'print(1)' },
        { id: 'b', source: 'plot()' }
      ]);
      await state.run(KERNEL, '--into', file);
      const [a, b] = await cellsOf(file);
      expect(a).toMatchObject({ execution_count: 3, outputs: [{ text: ['again\n'] }] });
      expect(b).toMatchObject({ execution_count: 2 });
    }));

  it('matches by code if a client names no cells, unless two cells have the same code', () =>
    inState(async state => {
      const record = new KernelStory();
      record.cell(null, 'once()', 1, id => record.stream(id, 'once\n'));
      record.cell(null, 'twice()', 2, id => record.stream(id, 'twice\n'));
      await state.kernel(KERNEL, record);
      const sources = ['once()', 'twice()', 'twice()'];
      const file = await state.notebook(sources.map((source, index) => ({ id: `n${index}`, source })));
      await state.run(KERNEL, '--into', file);
      expect((await cellsOf(file)).map(({ execution_count: count }) => count)).toEqual([1, null, null]);
    }));

  it('preserves the mode of the file, and a link to it', () =>
    inState(async state => {
      await state.kernel(KERNEL, story());
      const file = await state.notebook([{ id: 'a', source: 'print(1)' }]);
      await chmod(file, 0o640);
      const link = path.join(state.folder, 'link.ipynb');
      await symlink(file, link);
      await state.run(KERNEL, '--into', link);
      expect((await lstat(link)).isSymbolicLink()).toBe(true);
      expect((await stat(file)).mode & 0o777).toBe(0o640);
      expect((await cellsOf(file))[0]?.execution_count).toBe(1);
    }));

  it('leaves a file alone that was saved in the meantime', () =>
    inState(async state => {
      const file = await state.notebook([{ id: 'a', source: 'print(1)' }]);
      const read = await NotebookFile.read(file);
      await utimes(file, 1, 1);
      await expect(read.replace('{}', { backup: true })).rejects.toMatchObject({ code: 'notebook_changed' });
      expect(await readFile(file, 'utf8')).toBe(read.text);
      expect((await readdir(state.folder)).filter(name => name.endsWith('.tmp'))).toEqual([]);
    }));

  it('reports why a file cannot be read or written', () =>
    inState(async state => {
      await state.kernel(KERNEL, story());
      const missing = path.join(state.folder, 'none.ipynb');
      expect((await state.run(KERNEL, '--into', missing)).error).toMatchObject({ code: 'notebook_unusable' });
      const latin = path.join(state.folder, 'latin.ipynb');
      await writeFile(latin, Buffer.from('{"nbformat": 4, "cells": [], "a": "\xe9"}', 'latin1'));
      expect((await state.run(KERNEL, '--into', latin)).error?.message).toContain('it is not UTF-8');
      const pipe = path.join(state.folder, 'pipe.ipynb');
      execFileSync('mkfifo', [pipe]);
      expect((await state.run(KERNEL, '--into', pipe)).error?.message).toContain('it is no file');
      const file = await state.notebook([{ id: 'a', source: 'print(1)' }], 'gone/../work.ipynb');
      const read = await NotebookFile.read(file);
      await rm(file);
      await expect(read.replace('{}', { backup: false })).rejects.toMatchObject({
        code: 'notebook_not_written'
      });
    }));
});

describe('output that is printed to a terminal', () => {
  it.each([
    ['colours', '\x1b[1;31mred\x1b[0m', 'red', '\x1b[1;31mred\x1b[0m'],
    ['a window title', '\x1b]0;title\x07text', 'text', 'text'],
    ['a link', '\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\', 'text', 'text'],
    ['moves of the cursor', '\x1b[2J\x1b[Htext\x1b[3A', 'text', 'text'],
    ['a device request', '\x1bP$q"p\x1b\\text\x1bc', 'text', 'text'],
    ['a bell and other controls', 'a\x07b\x00c\x9b31md', 'abc31md', 'abc31md'],
    ['an escape in an escape', '\x1b\x1b[31m[2Jtext', '[2Jtext', '\x1b[31m[2Jtext']
  ])('with %s contains only harmless characters', (_what, text, plain, coloured) => {
    expect(printable(text, { colours: false })).toBe(plain);
    expect(printable(text, { colours: true })).toBe(coloured);
  });
});
