import { type Kernel, KernelMessage, ServerConnection } from '@jupyterlab/services';
import type { CapturedOutputs } from '@tpulab/protocol';
import { expect, test } from 'vitest';
import type { ChannelLink } from '../backends/channel-link.js';
import { capturedOf, captureMessages, modelsListen, restoreCaptured } from './captured.js';
import { followWidgetStates, withoutOpenWidgets } from './open-widgets.js';
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

/** The used part of a connection: its comms, and the conversion of bytes to messages. */
function connection(comms: ReadonlyMap<string, object>): Kernel.IKernelConnection {
  const settings = ServerConnection.makeSettings();
  return {
    serverSettings: settings,
    hasComm: (id: string) => comms.has(id),
    _comms: comms
  } as unknown as Kernel.IKernelConnection;
}

test('a widget that captures the cell shows its captures, and continues', () => {
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

test('widgets of finished cells stay as the kernel has them', () => {
  expect(capturedOf([captured()], new Set(['cell']))).toHaveLength(1);
  expect(capturedOf([captured()], new Set(['another']))).toEqual([]);
});

test('a model is awaited until it listens to its kernel', async () => {
  const comms = new Map<string, object>();
  const waits = modelsListen(connection(comms), ['out'], new AbortController().signal);
  comms.set('out', {});
  setTimeout(() => comms.set('out', { onMsg: () => undefined }), 60);
  await waits;
  expect(comms.get('out')).toHaveProperty('onMsg');
});

test('only states that the page lacks remain in the kernel’s answer, with their buffers', () => {
  const kernel = connection(new Map([['known', {}]]));
  const answer = (content: object): KernelMessage.IMessage =>
    KernelMessage.createMessage<KernelMessage.ICommMsgMsg<'iopub'>>({
      channel: 'iopub',
      msgType: 'comm_msg',
      session: 'kernel',
      content: content as KernelMessage.ICommMsgMsg['content'],
      buffers: [new Uint8Array([1, 2]).buffer]
    });
  const rewrite = withoutOpenWidgets(kernel);
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
  // Anything else passes unchanged.
  const other = frameOf(kernel, answer({ data: { method: 'update', state: {} }, comm_id: 'known' }));
  expect(rewrite(other)).toBe(other);
});

// While no page is open, the kernel receives no captures of its widgets.
test('outputs captured without a page are shown once the model exists; a widget of another process is skipped', async () => {
  const comms = new Map<string, object>([['out', { onMsg: () => undefined }]]);
  const kernel = connection(comms);
  const frames: ArrayBuffer[] = [];
  const link = { kernelSession: 'kernel', insert: (data: ArrayBuffer) => frames.push(data) > 0 };
  const old = captured({ commId: 'gone', capturing: false });
  const signal = AbortSignal.timeout(200);
  const done = restoreCaptured(
    kernel,
    link as unknown as ChannelLink,
    [captured({ capturing: false })],
    signal
  );
  await done;
  const states = frames.map(frame => {
    const message = kernel.serverSettings.serializer.deserialize(frame, V1) as KernelMessage.ICommMsgMsg;
    return [message.content.comm_id, (message.content.data as { state: object }).state];
  });
  expect(states).toEqual([
    ['out', { msg_id: '' }],
    ['out', { outputs: [{ output_type: 'stream', name: 'stdout', text: 'so far\n' }], msg_id: '' }]
  ]);
  frames.length = 0;
  await restoreCaptured(kernel, link as unknown as ChannelLink, [old], AbortSignal.timeout(100));
  expect(frames).toEqual([]);
});

// After a lost connection, the answer for all widgets arrives when the manager has already given up.
test('a request for one widget is answered with the states that arrived late, including its buffers', async () => {
  const kernel = connection(new Map());
  const frames: ArrayBuffer[] = [];
  const link = { insert: (data: ArrayBuffer) => frames.push(data) > 0 } as unknown as ChannelLink;
  followWidgetStates(kernel, link);
  const comm = (content: object, buffers: ArrayBuffer[] = []): KernelMessage.IMessage =>
    KernelMessage.createMessage({
      channel: 'shell',
      msgType: 'comm_msg',
      session: 'kernel',
      content: content as never,
      buffers
    });
  const request = comm({ comm_id: 'bar', data: { method: 'request_state' } });
  expect(link.answers?.(frameOf(kernel, request))).toBe(false);
  const states = { bar: { state: { value: 7 } }, image: { state: { width: 1 } } };
  const data = {
    method: 'update_states',
    states,
    buffer_paths: [
      ['image', 'value'],
      ['bar', 'data']
    ]
  };
  const buffers = [new Uint8Array([1]).buffer, new Uint8Array([2, 3]).buffer];
  link.rewrite?.(frameOf(kernel, comm({ comm_id: 'control', data }, buffers)));
  expect(link.answers?.(frameOf(kernel, request))).toBe(true);
  expect(link.answers?.(frameOf(kernel, comm({ comm_id: 'other', data: { method: 'request_state' } })))).toBe(
    false
  );
  expect(
    link.answers?.(frameOf(kernel, comm({ comm_id: 'bar', data: { method: 'update', state: {} } })))
  ).toBe(false);
  await Promise.resolve();
  const [answer] = frames.map(frame => kernel.serverSettings.serializer.deserialize(frame, V1));
  expect(answer?.parent_header).toMatchObject({ msg_id: request.header.msg_id });
  expect(answer?.header.session).toBe('kernel');
  expect(answer?.content).toEqual({
    comm_id: 'bar',
    data: { method: 'update', state: { value: 7 }, buffer_paths: [['data']] }
  });
  expect(
    answer?.buffers?.map(buffer => [
      ...new Uint8Array((buffer as DataView).buffer.slice((buffer as DataView).byteOffset))
    ])
  ).toEqual([[2, 3]]);
});
