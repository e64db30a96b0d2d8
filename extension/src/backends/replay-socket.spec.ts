// @vitest-environment jsdom
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type WebSocket as ServerSocket, WebSocketServer } from 'ws';
import { until } from '../testing/page.js';
import { messageId } from './received-messages.js';
import { withoutRepetitions } from './replay-socket.js';

let server: Server;
let sockets: WebSocketServer;
let replies: (socket: ServerSocket) => void;
beforeEach(async () => {
  server = createServer();
  sockets = new WebSocketServer({ server });
  sockets.on('connection', socket => replies(socket));
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
});
afterEach(() => {
  sockets.clients.forEach(client => client.terminate());
  server.close();
});

/** A v1 frame with a header and empty other parts. */
function frame(msgId: string): Buffer {
  const channel = Buffer.from('iopub');
  const header = Buffer.from(JSON.stringify({ msg_id: msgId, msg_type: 'stream', session: 's' }));
  const rest = Buffer.from('{}');
  const table = Buffer.alloc(8 * 7);
  table.writeBigUInt64LE(6n, 0);
  let offset = table.length;
  [0, channel.length, header.length, rest.length, rest.length, rest.length].forEach((length, index) => {
    offset += length;
    table.writeBigUInt64LE(BigInt(offset), 8 * (index + 1));
  });
  return Buffer.concat([table, channel, header, rest, rest, rest]);
}

async function received(Socket: typeof WebSocket, path: string, last: string): Promise<(string | null)[]> {
  const ids: (string | null)[] = [];
  const { port } = server.address() as AddressInfo;
  const socket = new Socket(`ws://127.0.0.1:${port}/${path}`);
  socket.binaryType = 'arraybuffer';
  socket.onmessage = (event: MessageEvent) =>
    ids.push(typeof event.data === 'string' ? event.data : messageId(event.data));
  await until(() => ids.at(-1) === last);
  socket.close();
  return ids;
}

const send =
  (...ids: string[]) =>
  (socket: ServerSocket): void =>
    ids.forEach(id => socket.send(frame(id)));

test('a message that is sent again after a reconnection arrives once', async () => {
  const Socket = withoutRepetitions(WebSocket);
  replies = send('1', '2', '3');
  expect(await received(Socket, 'api/kernels/k/channels?session_id=a', '3')).toEqual(['1', '2', '3']);
  replies = send('2', '3', 'made-by-the-bridge', '4');
  expect(await received(Socket, 'api/kernels/k/channels?session_id=a', '4')).toEqual([
    'made-by-the-bridge',
    '4'
  ]);
  replies = send('1', '4', '5');
  expect(await received(Socket, 'api/kernels/k/channels?session_id=a', '5')).toEqual(['5']);
});

test('other clients, other kernels and other classes of sockets get everything', async () => {
  const Socket = withoutRepetitions(WebSocket);
  replies = send('1', '2');
  await received(Socket, 'api/kernels/k/channels?session_id=a', '2');
  expect(await received(Socket, 'api/kernels/k/channels?session_id=b', '2')).toEqual(['1', '2']);
  expect(await received(Socket, 'api/kernels/m/channels?session_id=a', '2')).toEqual(['1', '2']);
  expect(await received(withoutRepetitions(WebSocket), 'api/kernels/k/channels?session_id=a', '2')).toEqual([
    '1',
    '2'
  ]);
});

test('an id that a kernel uses twice within one connection is left alone, as is what is no frame', async () => {
  const Socket = withoutRepetitions(WebSocket);
  replies = socket => {
    send('1', '1')(socket);
    socket.send('text');
    socket.send(Buffer.from([1, 2, 3]));
    send('2')(socket);
  };
  expect(await received(Socket, 'api/kernels/k/channels?session_id=a', '2')).toEqual([
    '1',
    '1',
    'text',
    null,
    '2'
  ]);
});
