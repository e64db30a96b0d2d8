import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { CellExecution, OutputsPage } from '@tpulab/protocol';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { BridgeCalls } from './bridge-calls.js';
import { followRun } from './follow-run.js';
import { RunFile, type RunRecord } from './rerun.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-follow-'));
});
afterEach(() => rm(folder, { recursive: true }));

const HASH = createHash('sha256').update('x').digest('hex');
const AT = '2026-01-01T00:00:00.000Z';

function printed(text: string, changedSeq: number): CellExecution {
  return {
    ...{ msgId: 'm', cellId: 'a', codeHash: HASH, state: 'ok', executionCount: 1, requestSeq: 1, changedSeq },
    ...{ requestedAt: AT, startedAt: AT, finishedAt: AT, clearPending: false, cutBytes: 0, gaps: [] },
    outputs: [
      {
        ...{ firstSeq: 2, lastSeq: changedSeq, displayId: null, cursor: null, cutBytes: 0, buffers: 0 },
        output: { output_type: 'stream', name: 'stdout', text }
      }
    ]
  };
}

it('writes output that a kernel publishes after the reply of its last cell', async () => {
  const notebook = path.join(folder, 'a.ipynb');
  const cell = { cell_type: 'code', id: 'a', source: 'x', metadata: {}, outputs: [], execution_count: null };
  await writeFile(notebook, JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [cell] }));
  // The reply is in the first page; the kernel is busy until the third.
  const texts = ['1', '12', '123', '123'];
  const states = ['busy', 'busy', 'idle', 'idle'];
  const page = (executions: CellExecution[]): OutputsPage => ({
    ...{ kernelId: 'k', alive: true, until: 9, nextAfter: null, executions, widgets: [] },
    forgotten: 0
  });
  let at = 0;
  let text = '';
  const calls = {
    outputs: () => {
      const now = texts[Math.min(at++, texts.length - 1)]!;
      const changed = now === text ? [] : [printed(now, at)];
      text = now;
      return Promise.resolve(page(changed));
    },
    kernel: () => Promise.resolve({ id: 'k', execution_state: states[Math.min(at - 1, 3)]! })
  } as unknown as BridgeCalls;
  const file = new RunFile(path.join(folder, 'state'), notebook, null);
  const record: RunRecord = {
    ...{ notebook, remote: null, kernelId: 'k', sessionId: 's', keepKernel: true },
    ...{ startedAt: AT, endedAt: null, failure: null }
  };
  await file.write(record);
  const ended = await followRun({
    ...{ calls, file, record, signal: new AbortController().signal, note: () => undefined }
  });
  expect(ended?.failure).toBeNull();
  const saved = JSON.parse(await readFile(notebook, 'utf8')) as { cells: [{ outputs: [{ text: unknown }] }] };
  expect(saved.cells[0].outputs[0].text).toEqual(['123']);
});
