import type { IOutput } from '@jupyterlab/nbformat';
import type { CellExecution, JournalEntry, MirroredKernel } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { sha256Hex } from '../platform/sha256.js';
import { fillFromStored, type IFilled, type IStoredOutputsSource } from './fill-from-stored.js';
import type { ICodeCell, INotebook } from './notebook.js';

const SAVED = Date.parse('2026-01-01T12:00:00Z');
const BEFORE = '2026-01-01T11:00:00.000Z';
const AFTER = '2026-01-01T13:00:00.000Z';
const LATER = '2026-01-01T14:00:00.000Z';
const { signal } = new AbortController();

/** An open notebook whose cells have their ids as their code, and no outputs. */
class Notebook implements INotebook {
  readonly saved = { at: SAVED };
  readonly keepsCellIds = true;
  readonly isShared = false;
  isDisposed = false;
  isDirty = false;
  readonly cells = new Map<
    string,
    { outputs: IOutput[]; count: number | null; isRunHere: boolean; isTrusted?: boolean }
  >();

  constructor(...ids: string[]) {
    for (const id of ids) {
      this.cells.set(id, { outputs: [], count: null, isRunHere: false });
    }
  }

  content(): unknown {
    return [...this.cells].map(([id, { outputs, count }]) => ({ id, outputs: [...outputs], count }));
  }

  codeCells(): ReadonlyMap<string, ICodeCell> {
    return new Map([...this.cells.keys()].map(id => [id, this.cell(id)]));
  }

  text(id: string): string {
    return (this.cells.get(id)?.outputs ?? [])
      .map(({ text }) => (typeof text === 'string' ? text : ''))
      .join('');
  }

  private cell(id: string): ICodeCell {
    const at = () => this.cells.get(id)!;
    return {
      get isRunHere() {
        return at().isRunHere;
      },
      read: () => ({ id, source: id, outputs: at().outputs, executionCount: at().count }),
      begin: isTrusted => Object.assign(at(), { outputs: [], count: null, isTrusted }),
      show: outputs => Object.assign(at(), { outputs: [...outputs] }),
      attach: () => {
        throw new Error('There is no kernel to be attached to.');
      },
      shows: () => false,
      end: count => Object.assign(at(), { count })
    };
  }
}

function execution(cellId: string, text: string, given: Partial<CellExecution> = {}): CellExecution {
  return {
    msgId: `${cellId}-${text}`,
    cellId,
    codeHash: sha256Hex(cellId),
    state: 'ok',
    executionCount: 3,
    requestedAt: BEFORE,
    startedAt: BEFORE,
    finishedAt: AFTER,
    requestSeq: 1,
    changedSeq: 9,
    outputs: [
      {
        output: { output_type: 'stream', name: 'stdout', text },
        firstSeq: 2,
        lastSeq: 9,
        displayId: null,
        cursor: null,
        cutBytes: 0,
        buffers: 0
      }
    ],
    clearPending: false,
    cutBytes: 0,
    gaps: [],
    ...given
  };
}

function kernel(kernelId: string, given: Partial<MirroredKernel> = {}): MirroredKernel {
  const fields = { name: 'jax', lastSeq: 9, bytes: 100, state: 'behind', endedAt: null } as const;
  return { kernelId, ...fields, wasShutDown: false, documents: ['far.ipynb'], ...given };
}

/** The stored data: kernels with their executions; each newest record is from `recordedAt`. */
function stored(
  kernels: readonly [MirroredKernel, CellExecution[]][],
  recordedAt: string | null = null,
  isTrusted: (execution: CellExecution) => boolean = () => true
): IStoredOutputsSource {
  return {
    trust: () => ({ learn: () => Promise.resolve(), has: isTrusted }),
    kernels: () => Promise.resolve(kernels.map(([each]) => each)),
    outputs: kernelId => ({
      read: async () => ({
        executions: kernels.find(([each]) => each.kernelId === kernelId)?.[1] ?? [],
        widgets: [],
        until: 9
      }),
      whole: async cut => ({ ...execution(cut.cellId ?? '', 'all of it\n'), cutBytes: 0 }),
      record: async seq => (recordedAt === null ? null : ({ seq, time: recordedAt } as JournalEntry))
    })
  };
}

function fill(notebook: INotebook, source: IStoredOutputsSource): Promise<IFilled> {
  return fillFromStored({ stored: source, notebook, path: 'far.ipynb', signal });
}

describe('a notebook whose kernel is lost', () => {
  it('shows its stored outputs with their time, and has something to save', async () => {
    const notebook = new Notebook('a', 'b');
    const filled = await fill(notebook, stored([[kernel('k'), [execution('a', 'one\n')]]]));
    expect(filled).toMatchObject({
      filled: ['a'],
      unfinished: [],
      unplaced: [],
      last: { kernelId: 'k', at: Date.parse(AFTER) }
    });
    expect([notebook.text('a'), notebook.cells.get('a')?.count]).toEqual(['one\n', 3]);
    expect([notebook.text('b'), notebook.isDirty]).toEqual(['', true]);
  });

  it('shows the output of a cell that never completed, without a count', async () => {
    const notebook = new Notebook('a');
    const open = execution('a', 'so far\n', { state: 'lost', finishedAt: null });
    const filled = await fill(notebook, stored([[kernel('k'), [open]]], LATER));
    expect(filled).toMatchObject({ filled: ['a'], unfinished: ['a'], last: { at: Date.parse(LATER) } });
    expect([notebook.text('a'), notebook.cells.get('a')?.count]).toEqual(['so far\n', null]);
    expect(notebook.isDirty).toBe(true);
  });

  it('leaves alone cells that were cleared and saved after the last record, and cells run in this page', async () => {
    const notebook = new Notebook('a', 'b');
    notebook.cells.get('b')!.isRunHere = true;
    const open = execution('a', 'so far\n', { state: 'lost', finishedAt: null });
    const filled = await fill(notebook, stored([[kernel('k'), [open, execution('b', 'x\n')]]], BEFORE));
    expect(filled).toEqual({ filled: [], unfinished: [], untrusted: [], unplaced: [], last: null });
    expect([notebook.text('a'), notebook.text('b'), notebook.isDirty]).toEqual(['', '', false]);
  });

  it('keeps the output of an earlier run if the last one only waited', async () => {
    const notebook = new Notebook('a');
    Object.assign(notebook.cells.get('a')!, {
      outputs: [{ output_type: 'stream', text: 'earlier\n' }],
      count: 1
    });
    const waited = execution('a', '', { state: 'lost', finishedAt: null, executionCount: null, outputs: [] });
    await fill(notebook, stored([[kernel('k'), [waited]]], LATER));
    expect(notebook.text('a')).toBe('earlier\n');
  });

  it('shows the newest run of each cell when it had several kernels', async () => {
    const notebook = new Notebook('a');
    const newer = execution('a', 'newer\n', { requestedAt: AFTER, finishedAt: LATER });
    const source = stored([
      [kernel('k2'), [newer]],
      [kernel('k1'), [execution('a', 'older\n')]]
    ]);
    expect(await fill(notebook, source)).toMatchObject({ last: { kernelId: 'k2' } });
    expect(notebook.text('a')).toBe('newer\n');
  });

  it('shows nothing from other notebooks, a shut-down kernel or a reachable kernel', async () => {
    const notebook = new Notebook('a');
    const foreign = [execution('a', 'not for here\n')];
    const source = stored([
      [kernel('1', { documents: ['other.ipynb'] }), foreign],
      [kernel('2', { state: 'ended', wasShutDown: true }), foreign],
      [kernel('3', { state: 'following' }), foreign]
    ]);
    expect((await fill(notebook, source)).filled).toEqual([]);
    // Where the notebooks of a kernel are unknown, the cells decide.
    await fill(notebook, stored([[kernel('4', { documents: [] }), foreign]]));
    expect(notebook.text('a')).toBe('not for here\n');
  });

  it('shows the complete outputs that were cut in the first answer', async () => {
    const notebook = new Notebook('a');
    await fill(notebook, stored([[kernel('k'), [execution('a', 'all …\n', { cutBytes: 7 })]]]));
    expect(notebook.text('a')).toBe('all of it\n');
  });

  it('reports outputs whose cell was changed or removed since', async () => {
    const notebook = new Notebook('a');
    const changed = execution('a', 'x\n', { codeHash: sha256Hex('other') });
    const filled = await fill(notebook, stored([[kernel('k'), [changed, execution('gone', 'y\n')]]]));
    expect(filled.unplaced.map(({ why }) => why)).toEqual(['changed', 'missing']);
    expect(filled.last).toBeNull();
  });

  it('is left unchanged when it is closed during the request to the bridge', async () => {
    const notebook = new Notebook('a');
    notebook.isDisposed = true;
    const filled = await fill(notebook, stored([[kernel('k'), [execution('a', 'one\n')]]]));
    expect([filled.filled, notebook.text('a')]).toEqual([[], '']);
  });
});

describe('outputs not requested from here', () => {
  it('are shown without trust, and are reported where trust matters', async () => {
    const html = { output_type: 'display_data' as const, data: { 'text/html': '<b>' }, metadata: {} };
    const rich = (cellId: string): CellExecution => {
      const plain = execution(cellId, 'x');
      return { ...plain, outputs: plain.outputs.map(entry => ({ ...entry, output: html })) };
    };
    const notebook = new Notebook('mine', 'theirs', 'text');
    const source = stored(
      [[kernel('k'), [rich('mine'), rich('theirs'), execution('text', 'x\n'), rich('gone')]]],
      null,
      ({ cellId }) => cellId === 'mine'
    );
    const { filled, untrusted, unplaced } = await fill(notebook, source);
    expect(filled).toEqual(['mine', 'theirs', 'text']);
    expect(untrusted).toEqual(['theirs']);
    expect(unplaced).toMatchObject([{ why: 'missing', isTrusted: false }]);
    const trusted = [...notebook.cells].map(([id, { isTrusted }]) => [id, isTrusted]);
    expect(trusted).toEqual([
      ['mine', true],
      ['theirs', false],
      ['text', false]
    ]);
  });
});
