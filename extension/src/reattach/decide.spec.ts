import type { IOutput } from '@jupyterlab/nbformat';
import { type CellExecution, FLOOD_MIME } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { sha256Hex } from '../platform/sha256.js';
import { decide } from './decide.js';
import type { ICodeCell, IShownCell } from './notebook.js';

const SAVED = { at: Date.parse('2026-01-01T12:00:00Z') };
const BEFORE = '2026-01-01T11:00:00Z';
const AFTER = '2026-01-01T13:00:00Z';
const CODE = 'print("ä")';

function execution(given: Partial<CellExecution> = {}, outputs: object[] = [stream('x\n')]): CellExecution {
  return {
    msgId: 'm',
    cellId: 'c',
    codeHash: sha256Hex(CODE),
    state: 'ok',
    executionCount: 3,
    requestedAt: BEFORE,
    startedAt: BEFORE,
    finishedAt: BEFORE,
    requestSeq: 1,
    changedSeq: 5,
    outputs: outputs.map(output => ({
      output: output as never,
      firstSeq: 2,
      lastSeq: 2,
      displayId: null,
      cursor: null,
      cutBytes: 0,
      buffers: 0
    })),
    clearPending: false,
    cutBytes: 0,
    gaps: [],
    ...given
  };
}

function stream(text: string | string[]): object {
  return { output_type: 'stream', name: 'stdout', text };
}

function cell(given: Partial<IShownCell> = {}, isRunHere = false): ICodeCell {
  const shown: IShownCell = { id: 'c', source: CODE, outputs: [], executionCount: null, ...given };
  const nothing = (): void => undefined;
  const rest = { begin: nothing, show: nothing, attach: nothing, shows: () => false, end: nothing };
  return { read: () => shown, isRunHere, ...rest };
}

const same = { outputs: [stream(['x', '\n']) as IOutput], executionCount: 3 };

describe('an execution that has not finished', () => {
  it.each(['queued', 'running'] as const)('is attached when it is %s', state => {
    expect(decide(execution({ state, finishedAt: null }), cell(same), SAVED, 'k')).toBe('attach');
  });

  it('is left alone when the cell was run in this page', () => {
    expect(decide(execution({ state: 'running', finishedAt: null }), cell({}, true), SAVED, 'k')).toBe(
      'leave'
    );
  });

  it('is reported when its cell has other code or was removed', () => {
    const running = execution({ state: 'running', finishedAt: null });
    expect(decide(running, cell({ source: 'other' }), SAVED, 'k')).toBe('changed');
    expect(decide(running, undefined, SAVED, 'k')).toBe('missing');
    expect(decide({ ...running, outputs: [] }, cell({ source: 'other' }), SAVED, 'k')).toBe('leave');
  });
});

// Outputs shown in part must not be fetched whole, nor replaced again and again.
describe('an execution whose outputs are cut', () => {
  const cut = execution({ cutBytes: 1_000_000, finishedAt: AFTER });
  const flood = (msgId: string): IOutput => ({
    output_type: 'display_data',
    metadata: {},
    data: { [FLOOD_MIME]: { msgId } }
  });

  it('is left alone where the file has its beginning, its counts and its end', () => {
    const shown = { executionCount: 3, outputs: [stream('x\n') as IOutput, flood('m')] };
    expect(decide(cut, cell(shown), SAVED, 'k')).toBe('leave');
    expect(decide(cut, cell({ ...shown, outputs: [flood('another run')] }), SAVED, 'k')).toBe('fill');
  });

  it('is left alone where the file was saved later, which may have more of it', () => {
    expect(decide({ ...cut, finishedAt: BEFORE }, cell(same), SAVED, 'k')).toBe('leave');
    expect(decide({ ...cut, finishedAt: BEFORE }, cell({ ...same, executionCount: null }), SAVED, 'k')).toBe(
      'fill'
    );
  });
});

describe('an execution that has finished', () => {
  it('fills a cell when it finished after the file was saved', () => {
    expect(decide(execution({ finishedAt: AFTER }), cell(), SAVED, 'k')).toBe('fill');
    expect(decide(execution({ finishedAt: BEFORE }), cell(), { at: null }, 'k')).toBe('fill');
  });

  it('fills a cell whose kernel ended at an unknown time, if it began after the file was saved', () => {
    const lost = execution({ state: 'lost', finishedAt: null, startedAt: AFTER });
    expect(decide(lost, cell(), SAVED, 'k')).toBe('fill');
    expect(decide({ ...lost, startedAt: BEFORE }, cell(), SAVED, 'k')).toBe('leave');
  });

  it('does not bring back outputs that the user has cleared and saved', () => {
    expect(decide(execution(), cell(), SAVED, 'k')).toBe('leave');
  });

  it('fills a cell that was saved in the middle of it', () => {
    expect(decide(execution(), cell({ outputs: [stream('half') as IOutput] }), SAVED, 'k')).toBe('fill');
  });

  it('fills a cell that has this count and other outputs: they changed after its end', () => {
    expect(decide(execution(), cell({ executionCount: 3 }), SAVED, 'k')).toBe('fill');
    expect(decide(execution(), cell({ executionCount: 2, outputs: same.outputs }), SAVED, 'k')).toBe('leave');
  });

  it('is left alone when the file has it, in any notation of its text', () => {
    expect(decide(execution({ finishedAt: AFTER }), cell(same), SAVED, 'k')).toBe('leave');
  });

  it('is followed when the file has it and one of its displays may change', () => {
    const display = { output_type: 'display_data', data: { 'text/plain': 'a' }, metadata: {} };
    const shown = execution({ finishedAt: AFTER }, [display]);
    const entry = shown.outputs[0];
    const withId = { ...shown, outputs: entry ? [{ ...entry, displayId: 'd' }] : [] };
    const inFile = cell({
      outputs: [{ ...display, transient: {} }],
      executionCount: 3
    });
    expect(decide(withId, inFile, SAVED, 'k')).toBe('follow');
  });

  it('is reported once, while the file is older than it', () => {
    expect(decide(execution({ finishedAt: AFTER }), undefined, SAVED, 'k')).toBe('missing');
    expect(decide(execution({ finishedAt: BEFORE }), undefined, SAVED, 'k')).toBe('leave');
    expect(decide(execution({ finishedAt: AFTER }), cell({ source: 'other' }), SAVED, 'k')).toBe('changed');
    expect(decide(execution({ finishedAt: BEFORE }), cell({ source: 'other' }), SAVED, 'k')).toBe('leave');
  });
});

// A page that lags behind saves after the kernel has ended.
describe('with the record that the file shows', () => {
  const shown = { ...SAVED, kernel: 'k', seq: 10 };

  it('fills cells that ended after it, regardless of the clocks', () => {
    expect(decide(execution({ finishedSeq: 11 }), cell(), shown, 'k')).toBe('fill');
    expect(decide(execution({ finishedAt: null, state: 'lost', finishedSeq: 11 }), cell(), shown, 'k')).toBe(
      'fill'
    );
  });

  it('does not bring back cleared outputs, even if a display of them is updated later', () => {
    const cleared = execution({ finishedAt: AFTER, finishedSeq: 10, changedSeq: 12 });
    expect(decide(cleared, cell(), shown, 'k')).toBe('leave');
  });

  it('has no effect on other kernels', () => {
    expect(decide(execution({ finishedSeq: 11 }), cell(), shown, 'other')).toBe('leave');
    expect(decide(execution({ finishedAt: AFTER, finishedSeq: 1 }), cell(), shown, 'other')).toBe('fill');
  });
});
