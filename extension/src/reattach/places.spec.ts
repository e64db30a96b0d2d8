import type { CellExecution } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { sha256Hex } from '../platform/sha256.js';
import type { ICodeCell, INotebook } from './notebook.js';
import { placesOf } from './places.js';

/** Cells by id, with their code. */
function notebook(cells: Readonly<Record<string, string>>, keepsCellIds = false): INotebook {
  const nothing = (): void => undefined;
  const cell = (id: string, source: string): ICodeCell => ({
    isRunHere: false,
    read: () => ({ id, source, outputs: [], executionCount: null }),
    begin: nothing,
    show: nothing,
    attach: nothing,
    shows: () => false,
    end: nothing
  });
  return {
    saved: { at: null },
    keepsCellIds,
    isShared: false,
    isDisposed: false,
    isDirty: false,
    content: () => null,
    codeCells: () => new Map(Object.entries(cells).map(([id, source]) => [id, cell(id, source)]))
  };
}

let requests = 0;
function run(cellId: string | null, code: string, requestedAt = '2026-01-01T12:00:00Z') {
  requests += 1;
  const execution = {
    msgId: `m${requests}`,
    cellId,
    codeHash: sha256Hex(code),
    requestSeq: requests,
    requestedAt
  };
  return { execution: execution as CellExecution };
}

const placed = (executions: ReturnType<typeof run>[], of: INotebook) =>
  placesOf(executions, of).map(({ of: { execution }, cell, isAmbiguous }) => [
    execution.msgId,
    isAmbiguous ? 'ambiguous' : (cell?.read().id ?? null)
  ]);

describe('a notebook whose file stores ids', () => {
  it('uses the id alone: a copy of a deleted cell does not get its outputs', () => {
    const one = run('a', 'x');
    const other = run('gone', 'y');
    expect(placed([one, other], notebook({ a: 'x', b: 'y' }, true))).toEqual([
      [one.execution.msgId, 'a'],
      [other.execution.msgId, null]
    ]);
  });
});

describe('a notebook whose cells have new ids in each page', () => {
  it('finds a cell by its code when the code occurs once in the notebook', () => {
    const one = run('of an earlier page', 'x');
    expect(placed([one], notebook({ a: 'x', b: 'y' }))).toEqual([[one.execution.msgId, 'a']]);
  });

  it('reports when several cells have the code, and when none has it', () => {
    const twice = run('e1', 'x');
    const never = run('e2', 'z');
    expect(placed([twice, never], notebook({ a: 'x', b: 'x', c: 'y' }))).toEqual([
      [twice.execution.msgId, 'ambiguous'],
      [never.execution.msgId, null]
    ]);
  });

  it('uses the newest run of a cell, which had another id in each page', () => {
    const [first, second, here] = [run('e1', 'x'), run('e2', 'x'), run('a', 'x')];
    expect(placed([first, second], notebook({ a: 'x' }))).toEqual([[second.execution.msgId, 'a']]);
    expect(placed([first, second, here], notebook({ a: 'x' }))).toEqual([[here.execution.msgId, 'a']]);
  });

  it('compares runs of different kernels by their times', () => {
    const newer = run('e1', 'x', '2026-01-01T13:00:00Z');
    const older = run('e2', 'x', '2026-01-01T12:00:00Z');
    expect(placed([newer, older], notebook({ a: 'x' }))).toEqual([[newer.execution.msgId, 'a']]);
  });

  it('leaves alone executions without a cell, as in a console', () => {
    const typed = run(null, 'x');
    expect(placed([typed], notebook({ a: 'x' }))).toEqual([[typed.execution.msgId, null]]);
  });
});
