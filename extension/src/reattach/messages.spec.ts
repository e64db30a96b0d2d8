import type { KernelMessage } from '@jupyterlab/services';
import type { CellExecution, OutputEntry } from '@tpulab/protocol';
import { expect, test } from 'vitest';
import { outputMessages, replyMessage, requestMessage } from './messages.js';

const SPEAKER = { kernelSession: 'kernel', clientSession: 'earlier' };

function execution(entries: Partial<OutputEntry>[], given: Partial<CellExecution> = {}): CellExecution {
  return {
    msgId: 'm',
    cellId: 'c',
    codeHash: null,
    state: 'running',
    executionCount: 4,
    requestedAt: '2026-01-01T00:00:00Z',
    startedAt: null,
    finishedAt: null,
    requestSeq: 1,
    changedSeq: 2,
    outputs: entries.map(entry => ({
      output: { output_type: 'stream', name: 'stdout', text: '' },
      firstSeq: 2,
      lastSeq: 2,
      displayId: null,
      cursor: null,
      cutBytes: 0,
      buffers: 0,
      ...entry
    })),
    clearPending: false,
    cutBytes: 0,
    gaps: [],
    ...given
  };
}

const contents = (messages: KernelMessage.IIOPubMessage[]): unknown[] =>
  messages.map(({ header, content }) => [header.msg_type, content]);

test('the cursor stays inside the last line of a text', () => {
  const output = { output_type: 'stream' as const, name: 'stdout', text: 'one\n 50 %' };
  const messages = outputMessages(execution([{ output, cursor: 4 }]), SPEAKER);
  expect(contents(messages)).toEqual([
    ['stream', { name: 'stdout', text: 'one\n 50 %' }],
    ['stream', { name: 'stdout', text: '\r' }]
  ]);
  expect(messages[0]?.header.session).toBe('kernel');
  expect(messages[0]?.parent_header).toMatchObject({ msg_id: 'm', session: 'earlier' });
});

test('displays keep the id by which they are updated, and a pending clear comes last', () => {
  const output = { output_type: 'display_data' as const, data: { 'text/plain': 'x' }, metadata: {} };
  const shown = execution([{ output, displayId: 'd' }], { clearPending: true });
  expect(contents(outputMessages(shown, SPEAKER))).toEqual([
    ['display_data', { data: output.data, metadata: {}, transient: { display_id: 'd' } }],
    ['clear_output', { wait: true }]
  ]);
});

test('the missed reply shows how the execution ended', () => {
  const error = { output_type: 'error' as const, ename: 'E', evalue: 'v', traceback: ['t'] };
  const failed = execution([{ output: error }], { state: 'error' });
  expect(replyMessage(failed, SPEAKER).content).toMatchObject({
    status: 'error',
    execution_count: 4,
    ename: 'E',
    traceback: ['t']
  });
  expect(replyMessage(execution([], { state: 'aborted' }), SPEAKER).content.status).toBe('aborted');
  expect(requestMessage(failed, 'code', 'me').header).toMatchObject({ msg_id: 'm', session: 'me' });
});
