import { type Kernel, KernelMessage, ServerConnection } from '@jupyterlab/services';
import type { CapturedOutputs } from '@tpulab/protocol';
import { expect, test } from 'vitest';
import { capturedOf, captureMessages, modelsListen } from './captured.js';
import { withoutKnownWidgets } from './known-widgets.js';
import { frameOf } from './messages.js';

const V1 = 'v1.kernel.websocket.jupyter.org';

function captured(given: Partial<CapturedOutputs> = {}): CapturedOutputs {
  const output = { output_type: 'stream' as const, name: 'stdout' as const, text: 'so far\n' };
  return {
    commId: 'out',
    msgIds: ['first', 'cell'],
    capturing: true,
    changedSeq: 9,
    outputs: [{ output, firstSeq: 2, lastSeq: 2, displayId: null, cursor: null, cutBytes: 0, buffers: 0 }],
    clearPending: false,
    cutBytes: 0,
    ...given
  };
}

/** What is used of a connection: which comms it has, and how bytes become messages. */
function connection(comms: ReadonlyMap<string, object>): Kernel.IKernelConnection {
  const settings = ServerConnection.makeSettings();
  return {
    serverSettings: settings,
    hasComm: (id: string) => comms.has(id),
    _comms: comms
  } as unknown as Kernel.IKernelConnection;
}

test('a widget that captures the cell shows what it has captured, and goes on', () => {
  const messages = captureMessages(captured(), 'kernel');
  expect(messages.map(({ header }) => [header.msg_type, header.session])).toEqual([
    ['comm_msg', 'kernel'],
    ['comm_msg', 'kernel']
  ]);
  // Only a change of `msg_id` makes a model capture.
  expect(messages.map(({ content }) => (content as { data: { state: object } }).data.state)).toEqual([
    { msg_id: '' },
    { outputs: [{ output_type: 'stream', name: 'stdout', text: 'so far\n' }], msg_id: 'cell' }
  ]);
});

test('a widget that has captured enough shows it and captures nothing', () => {
  const [, last] = captureMessages(captured({ capturing: false }), 'kernel');
  expect(last?.content).toMatchObject({ comm_id: 'out', data: { state: { msg_id: '' } } });
});

test('widgets of cells that are over are left as the kernel has them', () => {
  expect(capturedOf([captured()], new Set(['cell']))).toHaveLength(1);
  expect(capturedOf([captured()], new Set(['another']))).toEqual([]);
});

test('a model is waited for until it hears its kernel', async () => {
  const comms = new Map<string, object>();
  const waits = modelsListen(connection(comms), ['out'], new AbortController().signal);
  comms.set('out', {});
  setTimeout(() => comms.set('out', { onMsg: () => undefined }), 60);
  await waits;
  expect(comms.get('out')).toHaveProperty('onMsg');
});

test('of the states that the kernel sends again only those that the page lacks are left, with their buffers', () => {
  const kernel = connection(new Map([['known', {}]]));
  const answer = (content: object): KernelMessage.IMessage =>
    KernelMessage.createMessage<KernelMessage.ICommMsgMsg<'iopub'>>({
      channel: 'iopub',
      msgType: 'comm_msg',
      session: 'kernel',
      content: content as KernelMessage.ICommMsgMsg['content'],
      buffers: [new Uint8Array([1, 2]).buffer]
    });
  const rewrite = withoutKnownWidgets(kernel);
  const state = { model_name: 'IntSliderModel', state: { value: 3 } };
  const data = {
    method: 'update_states',
    states: { known: state, lacking: state },
    buffer_paths: [['lacking', 'state', 'value']]
  };
  const changed = rewrite(frameOf(kernel, answer({ data, comm_id: 'control' })));
  const message = kernel.serverSettings.serializer.deserialize(changed, V1);
  expect(message.content).toEqual({ data: { ...data, states: { lacking: state } }, comm_id: 'control' });
  expect(message.buffers?.map(buffer => buffer.byteLength)).toEqual([2]);
  // Anything else passes as it is.
  const other = frameOf(kernel, answer({ data: { method: 'update', state: {} }, comm_id: 'known' }));
  expect(rewrite(other)).toBe(other);
});
