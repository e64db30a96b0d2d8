import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { StoredRunSummary } from '@tpulab/protocol';
import { encodeV1, newMessage } from '../jupyter/index.js';
import { RecordChannel } from '../journal/index.js';
import type { Kernel, KernelListener } from '../kernels/kernel.js';
import { KernelStory } from '../outputs/testing/kernel-story.js';
import { writeWatched } from './missed-cells.js';
import { newStoredRun } from './stored-run.js';
import { type Notice, Notices } from './notices.js';

const MIN = 60_000;
let sent: Notice[];
let snapshot: Record<string, unknown>;
let listener: KernelListener;
let notices: Notices;
const texts = (): string[] => sent.map(({ text }) => text);

beforeEach(() => {
  vi.useFakeTimers({ now: MIN });
  sent = [];
  snapshot = { executionState: 'idle', reason: null, specName: 'tpulab-jax', busyParent: null };
  notices = open();
});
afterEach(() => {
  notices[Symbol.dispose]();
  vi.useRealTimers();
});

function open(file?: string): Notices {
  const kernel = {
    id: 'k1',
    get snapshot() {
      return snapshot;
    },
    listen: (given: KernelListener) => {
      listener = given;
      return { [Symbol.dispose]: () => undefined };
    }
  } as unknown as Kernel;
  const registry = { list: () => [kernel], listen: () => ({ [Symbol.dispose]: () => undefined }) };
  return new Notices({
    registry,
    longMs: MIN,
    documentOf: () => 'a.ipynb',
    send: notice => sent.push(notice),
    ...(file !== undefined && { file })
  });
}

const header = (msgId: string): string =>
  JSON.stringify({ msg_id: msgId, msg_type: 'execute_request', session: 's' });

function become(executionState: string, reason: string | null = null): void {
  snapshot = { ...snapshot, executionState, reason };
  listener.changed?.();
}

function busy(msgId: string): void {
  snapshot = {
    ...snapshot,
    executionState: 'busy',
    busyParent: header(msgId)
  };
  listener.changed?.();
}

function reply(msgId: string, content: object, msgType = 'execute_reply'): void {
  const parent = header(msgId);
  const parts = newMessage({ msgType, session: 's', parent, content });
  const payload = encodeV1({ channel: 'shell', parts });
  listener.record?.({ seq: 1, timeNs: 0n, channel: RecordChannel.shell, payload });
}

const runOf = (changes: Partial<StoredRunSummary>): StoredRunSummary => ({
  ...newStoredRun('k1', 'r1', 0),
  ...{ name: 'lm', steps: 230, lastAt: 90 * MIN },
  ...changes
});

it('reports a cell that took long, with its number, its time and its error', () => {
  busy('a');
  vi.advanceTimersByTime(5 * MIN);
  reply('a', { status: 'ok', execution_count: 3 });
  busy('b');
  vi.advanceTimersByTime(130 * MIN);
  reply('b', { status: 'error', execution_count: 4, ename: 'ValueError', evalue: 'no data' });
  vi.advanceTimersByTime(5_000);
  expect(texts()).toEqual([
    'Cell [3] finished after 5 min.',
    'Cell [4] failed after 2 h 10 min: ValueError: no data'
  ]);
});

it('reports no short cells, interrupts, other replies or other requests', () => {
  busy('a');
  reply('a', { status: 'error', execution_count: 1, ename: 'NameError', evalue: 'x' });
  busy('b');
  vi.advanceTimersByTime(5 * MIN);
  reply('other', { status: 'ok', execution_count: 2 });
  reply('b', { status: 'ok' }, 'complete_reply');
  reply('b', { status: 'error', execution_count: 2, ename: 'KeyboardInterrupt', evalue: '' });
  vi.advanceTimersByTime(5_000);
  expect(sent).toEqual([]);
});

it('reports a cell that started before this server', () => {
  busy('early');
  notices[Symbol.dispose]();
  notices = open();
  reply('early', { status: 'ok', execution_count: 9 });
  vi.advanceTimersByTime(5_000);
  expect(texts()).toEqual(['Cell [9] finished.']);
});

it('reports a cell only once if its reply was stored while its kernel was still busy', async () => {
  vi.useRealTimers();
  const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  const journalDir = path.join(folder, 'journal');
  const file = path.join(folder, 'watched-cells.json');
  const story = new KernelStory();
  const msgId = story.request('slow()');
  story.reply(msgId, { execution_count: 3 });
  await story.writeTo(journalDir);
  const cell = { msgId, since: Date.now() - 5 * MIN, seq: 1 };
  writeWatched(file, [{ kernelId: 'k1', specName: 'tpulab-jax', journalDir, cell }]);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });

  busy(msgId);
  notices[Symbol.dispose]();
  notices = open(file);
  // The record also arrives live, before the file was read.
  reply(msgId, { status: 'ok', execution_count: 3 });
  await notices.catchUp();
  become('idle');
  vi.advanceTimersByTime(5_000);
  expect(texts()).toEqual(['Cell [3] finished after 5 min (while the server was down).']);
  await rm(folder, { recursive: true });
});

it('reports, for a run that ended before the server started, that the server was down', () => {
  notices.runEnded(runOf({ state: 'failed', lastAt: MIN - 1 }), null);
  expect(texts()).toEqual(['Run lm failed after 230 steps (while the server was down).']);
});

it('reports a run, without also reporting its cell', () => {
  busy('a');
  vi.advanceTimersByTime(90 * MIN);
  reply('a', { status: 'error', execution_count: 1, ename: 'ValueError', evalue: 'x' });
  notices.runEnded(runOf({ state: 'failed' }), null);
  busy('b');
  vi.advanceTimersByTime(90 * MIN);
  notices.runEnded(runOf({ state: 'finished' }), null);
  reply('b', { status: 'error', execution_count: 2, ename: 'OSError', evalue: 'full' });
  vi.advanceTimersByTime(5_000);
  expect(texts()).toEqual([
    'Run lm failed after 230 steps.',
    'Run lm finished after 230 steps in 1 h 30 min.',
    'Cell [2] failed after 1 h 30 min: OSError: full'
  ]);
  notices.runEnded(runOf({ state: 'finished', lastAt: 5_000 }), null);
  expect(sent).toHaveLength(3);
});

it('reports a killed kernel, with its run if it had one, and no kernel that a user ends', () => {
  become('restarting', 'killed by SIGKILL');
  vi.advanceTimersByTime(5_000);
  become('idle');
  become('dead', 'exited with code 1');
  notices.runEnded(runOf({ state: 'interrupted' }), 'exited with code 1');
  expect(sent.at(-1)).toMatchObject({ kind: 'run_cut_off', kernelId: 'k1', document: 'a.ipynb', run: 'lm' });
  vi.advanceTimersByTime(5_000);
  for (const byPerson of ['restart requested', 'shut down', 'shutdown by a client']) {
    become('idle');
    become('restarting', byPerson);
    notices.runEnded(runOf({ state: 'interrupted' }), byPerson);
  }
  vi.advanceTimersByTime(5_000);
  expect(texts()).toEqual([
    'Kernel tpulab-jax ended: killed by SIGKILL.',
    'Run lm was cut off after 230 steps: its kernel ended (exited with code 1).'
  ]);
});
