import { appendFile, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { JournalWriter } from '../journal/index.js';
import { inTemporaryFolder } from '../journal/testing/journal-folder.js';
import { codeHash } from './execution.js';
import { INDEX_LIMITS } from './index-file.js';
import { KernelOutputs, type KernelOutputsOptions } from './kernel-outputs.js';
import type { Outputs, OutputsRequest } from './read-outputs.js';
import { KernelStory, segmentsOf } from './testing/kernel-story.js';
import { capture, openWidget } from './testing/random-story.js';

interface Stored {
  readonly folder: string;
  readonly journalDir: string;
  readonly indexFile: string;
}

function inFolder(work: (retained: Stored) => Promise<void>): Promise<void> {
  return inTemporaryFolder(folder =>
    work({ folder, journalDir: path.join(folder, 'journal'), indexFile: path.join(folder, 'outputs.index') })
  );
}

async function readBack(
  options: KernelOutputsOptions,
  request: OutputsRequest = {},
  to: number | null = null
): Promise<Outputs> {
  const outputs = new KernelOutputs(options);
  const read = await outputs.read(request, to);
  await outputs[Symbol.asyncDispose]();
  return read;
}

function textsOf({ executions }: Pick<Outputs, 'executions'>): string[] {
  return executions.map(({ outputs }) =>
    outputs.map(({ output }) => (output.output_type === 'stream' ? output.text : output.output_type)).join('')
  );
}

function threeCells(): KernelStory {
  const story = new KernelStory();
  story.cell('a', 'print(1)', 1, id => story.stream(id, '1\n'));
  story.cell('b', 'print(2)', 2, id => story.stream(id, '2\n'));
  story.cell('c', 'print(3)', 3, id => story.stream(id, '3\n'));
  return story;
}

describe('an execution', () => {
  it('has its cell, code, state, count and times', () =>
    inFolder(async ({ journalDir }) => {
      const story = threeCells();
      story.cell('d', 'fails()', 4, id => {
        story.iopub(id, 'error', { ename: 'E', evalue: 'v', traceback: ['t'] });
        story.reply(id, { status: 'error', execution_count: 4 });
      });
      const aborted = story.request('never', { cellId: 'e' });
      story.reply(aborted, { status: 'aborted' });
      story.request('x', { cellId: 'f' });
      const standIn = story.request('y', { cellId: 'g' });
      story.begin(standIn, 'y', 5);
      story.reply(standIn, { status: 'error' }, { tpulab: { replyLost: true } });
      await story.writeTo(journalDir);
      const { executions } = await readBack({ journalDir, indexFile: null });
      expect(executions.map(({ cellId, state, executionCount }) => [cellId, state, executionCount])).toEqual([
        ['a', 'ok', 1],
        ['b', 'ok', 2],
        ['c', 'ok', 3],
        // The second reply of the story states it; a real kernel would answer only once.
        ['d', 'ok', 4],
        ['e', 'aborted', null],
        ['f', 'queued', null],
        // The keeper answered in the kernel's place: how the cell ended is unknown.
        ['g', 'lost', 5]
      ]);
      const [first] = executions;
      expect(first?.codeHash).toBe(codeHash('print(1)'));
      expect(first?.requestSeq).toBe(1);
      const times = [first?.requestedAt, first?.startedAt, first?.finishedAt].map(time =>
        Date.parse(time ?? '')
      );
      expect(times).toEqual([...times].sort((x, y) => x - y));
      expect(times.every(time => time > 0)).toBe(true);
    }));

  it('is omitted when it is silent and belongs to no cell', () =>
    inFolder(async ({ journalDir }) => {
      const story = new KernelStory();
      story.end(story.request('inspect()', { silent: true }));
      story.end(story.request('mine()', { silent: true, cellId: 'a' }));
      await story.writeTo(journalDir);
      const { executions } = await readBack({ journalDir, indexFile: null });
      expect(executions.map(({ cellId }) => cellId)).toEqual(['a']);
    }));

  it.each([
    ['crashes', (story: KernelStory) => story.status(null, 'restarting')],
    ['is restarted', (story: KernelStory) => story.restart()]
  ])('is lost with a kernel that %s, until another message about it arrives', (_how, end) =>
    inFolder(async ({ journalDir }) => {
      const story = new KernelStory();
      const runs = story.request('long()', { cellId: 'runs' });
      story.begin(runs, 'long()', 1);
      story.request('next()', { cellId: 'waits' });
      end(story);
      const held = story.request('held()', { cellId: 'held' });
      story.session = 'kernel-2';
      story.status(null, 'starting');
      await story.writeTo(journalDir);
      const states = async (): Promise<unknown> =>
        (await readBack({ journalDir, indexFile: null })).executions.map(({ state }) => state);
      expect(await states()).toEqual(['lost', 'lost', 'queued']);
      const { executions } = await readBack({ journalDir, indexFile: null });
      expect(executions.map(({ finishedAt }) => finishedAt !== null)).toEqual([true, true, false]);
      const more = new KernelStory();
      more.session = 'kernel-2';
      const all = story.messages.length;
      story.begin(held, 'held()', 1);
      story.end(held);
      await more.writeTo(journalDir, {}, story.messages.slice(all));
      expect(await states()).toEqual(['lost', 'lost', 'ok']);
    })
  );

  it('is lost without a restart message when another process sends messages', () =>
    inFolder(async ({ journalDir }) => {
      const story = new KernelStory();
      story.begin(story.request('long()', { cellId: 'a' }), 'long()', 1);
      story.session = 'kernel-2';
      story.cell('b', 'x', 1);
      await story.writeTo(journalDir);
      const { executions } = await readBack({ journalDir, indexFile: null });
      expect(executions.map(({ state }) => state)).toEqual(['lost', 'ok']);
    }));
});

describe('outputs that belong to more than one cell', () => {
  // A restarted kernel assigns the same ids to other displays.
  it.each([
    ['whole', null],
    ['cell by cell', new Set(['one'])]
  ])('displays of an earlier process keep their last state, read %s', (_how, cells) =>
    inFolder(async ({ journalDir }) => {
      const story = new KernelStory();
      const show = (id: string, text: string): void => story.display(id, { 'text/plain': text }, 'd');
      const update = (id: string, text: string): void =>
        story.display(id, { 'text/plain': text }, 'd', 'update_display_data');
      story.cell('one', 'show()', 1, id => show(id, 'first'));
      story.cell('two', 'update()', 2, id => update(id, 'second'));
      story.restart();
      story.session = 'kernel-2';
      story.cell('three', 'again()', 1, id => show(id, 'third'));
      story.cell('four', 'update()', 2, id => update(id, 'fourth'));
      await story.writeTo(journalDir);
      const { executions } = await readBack({ journalDir, indexFile: null }, { cells });
      const shown = executions.flatMap(({ cellId, outputs }) =>
        outputs.map(({ output, displayId }) => [
          cellId,
          displayId,
          'data' in output && output.data['text/plain']
        ])
      );
      const old = ['one', null, 'second'];
      expect(shown).toEqual(cells === null ? [old, ['three', 'd', 'fourth']] : [old]);
    })
  );

  it('a page of help is shown below its cell', () =>
    inFolder(async ({ journalDir }) => {
      const story = new KernelStory();
      const id = story.request('print?', { cellId: 'a' });
      story.begin(id, 'print?', 1);
      story.reply(id, { payload: [{ source: 'page', data: { 'text/plain': 'help' }, start: 0 }] });
      await story.writeTo(journalDir);
      const { executions } = await readBack({ journalDir, indexFile: null });
      expect(executions[0]?.outputs.map(({ output }) => output)).toEqual([
        { output_type: 'display_data', data: { 'text/plain': 'help' }, metadata: {} }
      ]);
    }));

  it('an Output widget has the outputs that it captured, the cell has the rest', () =>
    inFolder(async ({ journalDir }) => {
      const story = new KernelStory();
      const id = story.cell('a', 'code', 1, each => {
        openWidget(story, each, 'widget');
        story.stream(each, 'before\n');
        capture(story, each, 'widget', each);
        story.stream(each, 'gone\n');
        story.iopub(each, 'clear_output', { wait: false });
        story.stream(each, 'inside\n');
        capture(story, each, 'widget', '');
        story.stream(each, 'after\n');
      });
      await story.writeTo(journalDir);
      const { executions, widgets } = await readBack({ journalDir, indexFile: null });
      expect(textsOf({ executions })).toEqual(['before\nafter\n']);
      expect(widgets).toMatchObject([{ commId: 'widget', msgIds: [id], capturing: false }]);
      expect(widgets[0]?.outputs.map(({ output }) => output)).toEqual([
        { output_type: 'stream', name: 'stdout', text: 'inside\n' }
      ]);
      const other = await readBack({ journalDir, indexFile: null }, { cells: new Set(['b']) });
      expect([other.executions, other.widgets]).toEqual([[], []]);
    }));
});

describe('the index file', () => {
  it('spares the next gateway from reading the journal, and gives the same result', () =>
    inFolder(async ({ journalDir, indexFile }) => {
      const story = threeCells();
      await story.writeTo(journalDir);
      const before = await readBack({ journalDir, indexFile });
      expect(JSON.parse((await readFile(indexFile, 'utf8')).split('\n')[1] ?? '')).toMatchObject({
        state: { throughSeq: story.messages.length }
      });
      expect(await readBack({ journalDir, indexFile })).toEqual(before);
    }));

  it.each([
    ['torn', async (file: string) => writeFile(file, (await readFile(file)).subarray(0, 300))],
    ['empty', (file: string) => writeFile(file, '')],
    ['something else', (file: string) => writeFile(file, 'x\n{}\n')],
    [
      'altered',
      async (file: string) => writeFile(file, (await readFile(file, 'utf8')).replace('"ok"', '"error"'))
    ],
    ['away', (file: string) => rm(file)]
  ])('that is %s is rebuilt', (_what, harm) =>
    inFolder(async ({ journalDir, indexFile }) => {
      await threeCells().writeTo(journalDir);
      const before = await readBack({ journalDir, indexFile });
      await harm(indexFile);
      expect(await readBack({ journalDir, indexFile })).toEqual(before);
    })
  );

  it('is built without reading the buffers of large messages, and includes what they show', () =>
    inFolder(async ({ journalDir, indexFile }) => {
      const buffers = [Buffer.alloc(2_000_000, 'b')];
      const story = new KernelStory();
      story.cell('a', 'show()', 1, id => {
        story.iopub(id, 'comm_msg', { comm_id: 'c', data: {} }, buffers);
        story.iopub(id, 'display_data', { data: { 'text/plain': 'shown' }, metadata: {} }, buffers);
      });
      await story.writeTo(journalDir);
      const [segment = ''] = await segmentsOf(journalDir);
      const bytes = await readFile(segment);
      const inBuffer = bytes.indexOf(Buffer.alloc(64, 'b'), 0);
      bytes[inBuffer + 1000] = 0;
      await writeFile(segment, bytes);
      const outputs = new KernelOutputs({ journalDir, indexFile });
      const { executions } = await outputs.executions(1000);
      // Damage that only a reader of the buffer can see.
      expect(executions).toMatchObject([{ state: 'ok', executionCount: 1, gaps: [] }]);
      await outputs[Symbol.asyncDispose]();
      expect(textsOf(await readBack({ journalDir, indexFile }))).toEqual([
        expect.stringContaining('messages are missing here')
      ]);
    }));

  it('that is older than the journal is continued', () =>
    inFolder(async ({ journalDir, indexFile }) => {
      const story = threeCells();
      await story.writeTo(journalDir, {}, story.messages.slice(0, 8));
      expect(textsOf(await readBack({ journalDir, indexFile }))).toEqual(['1\n', '']);
      await story.writeTo(journalDir, {}, story.messages.slice(8));
      expect(textsOf(await readBack({ journalDir, indexFile }))).toEqual(['1\n', '2\n', '3\n']);
    }));

  it('of a journal whose numbers were reused is rebuilt', () =>
    inFolder(async ({ journalDir, indexFile }) => {
      await threeCells().writeTo(journalDir);
      await readBack({ journalDir, indexFile });
      await rm(journalDir, { recursive: true });
      const other = new KernelStory();
      for (const cell of ['x', 'y', 'z', 'u', 'v']) other.cell(cell, cell, 1, id => other.stream(id, cell));
      await other.writeTo(journalDir);
      expect(textsOf(await readBack({ journalDir, indexFile }))).toEqual(['x', 'y', 'z', 'u', 'v']);
    }));

  it('cannot be written: the outputs are read anyway', () =>
    inFolder(async ({ folder, journalDir }) => {
      await threeCells().writeTo(journalDir);
      const failures: unknown[] = [];
      const indexFile = path.join(folder, 'no-such-folder', 'outputs.index');
      const read = await readBack({ journalDir, indexFile, onSaveFailed: error => failures.push(error) });
      expect(textsOf(read)).toEqual(['1\n', '2\n', '3\n']);
      expect(failures).toHaveLength(1);
    }));
});

describe('bounds', () => {
  it('the index drops the oldest executions, counts them, and keeps running ones and those that notebooks show', () =>
    inFolder(async ({ journalDir }) => {
      const story = new KernelStory();
      const running = story.request('long()', { cellId: 'runs' });
      story.begin(running, 'long()', 1);
      story.cell('shown', 'x', 2, id => story.stream(id, 'shown\n'));
      for (let n = 0; n < 50; n++) story.cell('again', `${n}`, n, id => story.stream(id, `${n}\n`));
      await story.writeTo(journalDir);
      const limits = { ...INDEX_LIMITS, executions: 10 };
      const { executions, forgotten } = await readBack({ journalDir, indexFile: null, limits });
      expect(executions.map(({ cellId }) => cellId)).toEqual(['runs', 'shown', 'again']);
      expect(textsOf({ executions })).toEqual(['', 'shown\n', '49\n']);
      expect(forgotten).toBeGreaterThanOrEqual(42);
    }));

  it('displays that the index has dropped are found in the journal', () =>
    inFolder(async ({ journalDir }) => {
      const story = new KernelStory();
      story.cell('a', 'x', 1, id => story.display(id, { 'text/plain': 'old' }, 'first'));
      story.cell('b', 'y', 2, id => {
        for (let n = 0; n < 20; n++) story.display(id, { 'text/plain': `${n}` }, `display-${n}`);
        story.display(id, { 'text/plain': 'new' }, 'first', 'update_display_data');
        for (let n = 20; n < 40; n++) story.display(id, { 'text/plain': `${n}` }, `display-${n}`);
      });
      await story.writeTo(journalDir);
      const limits = { ...INDEX_LIMITS, displays: 5 };
      const { executions } = await readBack(
        { journalDir, indexFile: null, limits },
        { cells: new Set(['a']) }
      );
      expect(executions[0]?.outputs[0]?.output).toMatchObject({ data: { 'text/plain': 'new' } });
    }));

  it('a page ends early when its outputs are large, and the next one has the rest', () =>
    inFolder(async ({ journalDir }) => {
      const story = new KernelStory();
      const large = 'x'.repeat(1024 * 1024);
      for (let n = 0; n < 8; n++) {
        story.cell(`c${n}`, `${n}`, n, id => {
          for (let part = 0; part < 8; part++) story.display(id, { 'text/plain': `${part}${large}` });
        });
      }
      await story.writeTo(journalDir);
      const outputs = new KernelOutputs({ journalDir, indexFile: null });
      const request = { maxBytes: 16 * 1024 * 1024 };
      const first = await outputs.read(request, null);
      expect(first.executions.length).toBeLessThan(8);
      expect(first.nextAfter).toBe(first.executions.at(-1)?.requestSeq);
      const second = await outputs.read({ ...request, after: first.nextAfter ?? 0 }, null);
      const cells = [...first.executions, ...second.executions].map(({ cellId }) => cellId);
      expect(cells).toEqual(Array.from({ length: cells.length }, (_, n) => `c${n}`));
      expect(cells.length).toBeGreaterThan(first.executions.length);
    }));
});

describe('missing messages', () => {
  it('are reported in the cell that ran, not in those before and after', () =>
    inFolder(async ({ journalDir }) => {
      const story = threeCells();
      const id = story.request('long()', { cellId: 'd' });
      story.begin(id, 'long()', 4);
      story.stream(id, 'begun\n');
      story.gap(1, 'The disk was full.');
      story.stream(id, 'ended\n');
      story.end(id);
      story.cell('e', 'print(5)', 5, each => story.stream(each, '5\n'));
      await story.writeTo(journalDir);
      const { executions } = await readBack({ journalDir, indexFile: null });
      expect(executions.map(({ gaps }) => gaps.length)).toEqual([0, 0, 0, 1, 0]);
      expect(executions[3]?.outputs.map(({ output }) => output)).toMatchObject([
        { name: 'stdout', text: 'begun\n' },
        { name: 'stderr', text: '[tpulab] 1 message is missing here. The disk was full.\n' },
        { name: 'stdout', text: 'ended\n' }
      ]);
    }));

  it('from a removed segment are reported, and the code is known from later messages', () =>
    inFolder(async ({ journalDir, indexFile }) => {
      const story = new KernelStory();
      const id = story.request('long()', { cellId: 'a' });
      story.begin(id, 'long()', 1);
      for (let n = 0; n < 40; n++) story.stream(id, `${n} ${'x'.repeat(200)}\n`);
      await story.writeTo(journalDir, { segmentBytes: 4096 });
      const known = await readBack({ journalDir, indexFile });
      const [oldest, ...rest] = await segmentsOf(journalDir);
      expect(rest.length).toBeGreaterThan(2);
      await rm(oldest!);
      const withIndex = await readBack({ journalDir, indexFile });
      expect(withIndex.executions[0]).toMatchObject({ cellId: 'a', codeHash: known.executions[0]?.codeHash });
      expect(textsOf(withIndex)[0]).toMatch(/^\[tpulab\] \d+ messages are missing here\./);
      const without = await readBack({ journalDir, indexFile: null });
      expect(without.executions).toMatchObject([
        { msgId: id, cellId: null, codeHash: null, state: 'running' }
      ]);
      expect(textsOf(without)[0]).toContain('39 xxx');
    }));

  it('from damaged bytes of the journal are reported, and later ones are read', () =>
    inFolder(async ({ journalDir, indexFile }) => {
      const story = new KernelStory();
      const id = story.request('long()', { cellId: 'a' });
      story.begin(id, 'long()', 1);
      for (let n = 0; n < 40; n++) story.stream(id, `${n} ${'x'.repeat(200)}\n`);
      story.end(id);
      await story.writeTo(journalDir, { segmentBytes: 4096 });
      const segment = (await segmentsOf(journalDir))[1]!;
      const bytes = await readFile(segment);
      bytes[700]! ^= 0xff;
      await writeFile(segment, bytes);
      for (const file of [null, indexFile, indexFile]) {
        const read = await readBack({ journalDir, indexFile: file });
        const [text] = textsOf(read);
        expect(text).toMatch(/\[tpulab\] \d+ messages are missing here\. Record \d+ in \d+\.seg/);
        expect(text?.startsWith('0 xxx')).toBe(true);
        expect(text).toContain('39 xxx');
        expect(read.executions[0]?.state).toBe('ok');
      }
    }));
});

describe('reading while the journal grows', () => {
  it('never reads beyond its limit, whatever was written since', () =>
    inFolder(async ({ journalDir }) => {
      const story = threeCells();
      await story.writeTo(journalDir);
      for (let to = 0; to <= story.messages.length; to++) {
        const { until, executions } = await readBack({ journalDir, indexFile: null }, {}, to);
        expect(until).toBe(to);
        expect(executions.every(({ changedSeq }) => changedSeq <= to)).toBe(true);
      }
    }));

  it('tolerates an incomplete last record', () =>
    inFolder(async ({ journalDir, indexFile }) => {
      await threeCells().writeTo(journalDir);
      const [segment] = await segmentsOf(journalDir);
      await appendFile(segment!, Buffer.from([200, 0, 0, 0, 1, 2, 3]));
      expect(textsOf(await readBack({ journalDir, indexFile }))).toEqual(['1\n', '2\n', '3\n']);
      // The keeper cuts it off and continues with the same number.
      const more = threeCells();
      await (
        await JournalWriter.open(journalDir, { onWritten: () => undefined, onFault: () => undefined })
      ).close();
      await more.writeTo(journalDir);
      expect(textsOf(await readBack({ journalDir, indexFile }, { history: true }))).toHaveLength(6);
    }));
});

// One cell must not delay the kernels of all others.
describe('outputs that are expensive to compute', () => {
  /** How many turns other tasks on the event loop had meanwhile. */
  async function turnsDuring(work: () => Promise<void>): Promise<number> {
    let turns = 0;
    let isOver = false;
    const check = (): void => {
      turns++;
      if (!isOver) setImmediate(check);
    };
    setImmediate(check);
    await work();
    isOver = true;
    return turns;
  }

  it('are computed in steps: a long line that is erased, overwritten and erased again', () =>
    inFolder(async ({ journalDir }) => {
      const story = new KernelStory();
      const half = 'b'.repeat(500_000);
      story.cell('a', 'x', 1, id => {
        story.stream(id, `${'a'.repeat(1_000_000)}\r${half}${'\b'.repeat(200_000)}c`);
        story.stream(id, '\rx\b'.repeat(100_000));
      });
      await story.writeTo(journalDir);
      let read: Outputs | null = null;
      const turns = await turnsDuring(async () => {
        read = await readBack({ journalDir, indexFile: null }, { maxBytes: Infinity });
      });
      // As in JupyterLab: each backspace removes the character before the cursor, and the one under it.
      const [text = ''] = textsOf(read!);
      expect(text).toMatch(/^[abc]*$/);
      expect(turns).toBeGreaterThan(10);
    }));

  it('are computed in steps: very many updates of a display that is shown in very many places', () =>
    inFolder(async ({ journalDir }) => {
      const story = new KernelStory();
      const display = (id: string, type: string, n: number): void =>
        story.iopub(id, type, {
          data: { 'text/plain': String(n) },
          metadata: {},
          transient: { display_id: 'd' }
        });
      story.cell('a', 'x', 1, id => {
        for (let n = 0; n < 500; n++) display(id, 'display_data', n);
        for (let n = 0; n < 20_000; n++) display(id, 'update_display_data', n);
      });
      await story.writeTo(journalDir);
      let read: Outputs | null = null;
      const turns = await turnsDuring(async () => {
        read = await readBack({ journalDir, indexFile: null }, { maxBytes: Infinity });
      });
      const outputs = read!.executions[0]!.outputs.map(({ output }) =>
        'data' in output ? output.data['text/plain'] : null
      );
      expect(outputs).toEqual(Array.from({ length: 500 }, () => '19999'));
      expect(turns).toBeGreaterThan(5);
    }));
});
