// @vitest-environment jsdom
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { NUMBERED_SUBPROTOCOL } from '@tpulab/protocol';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type WebSocket as ServerSocket, WebSocketServer } from 'ws';
import { until } from '../testing/page.js';
import { messageId } from './message-id.js';
import { KernelSockets } from './numbered-socket.js';

const V1 = 'v1.kernel.websocket.jupyter.org';

let server: Server;
let sockets: WebSocketServer;
/** Query of each opened socket, and the messages of its client. */
let queries: URLSearchParams[];
let sent: (string | null)[];
let serve: (socket: ServerSocket, query: URLSearchParams) => void;
let subprotocol: string;

beforeEach(async () => {
  queries = [];
  sent = [];
  subprotocol = NUMBERED_SUBPROTOCOL;
  server = createServer();
  sockets = new WebSocketServer({
    server,
    handleProtocols: offered => (offered.has(subprotocol) ? subprotocol : false)
  });
  sockets.on('connection', (socket, request) => {
    const query = new URL(request.url ?? '/', 'http://x').searchParams;
    queries.push(query);
    socket.on('message', (data, isBinary) =>
      sent.push(isBinary ? messageId(data) : (data as Buffer).toString('utf8'))
    );
    serve(socket, query);
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
});
afterEach(() => {
  sockets.clients.forEach(client => client.terminate());
  server.close();
});

/** A v1 frame with a header, a parent and empty other parts. */
function frame(msgId: string, parent = 'p', channel = 'iopub'): Buffer {
  const parts = [channel, JSON.stringify({ msg_id: msgId }), JSON.stringify({ msg_id: parent }), '{}', '{}'];
  const table = Buffer.alloc(8 * (parts.length + 2));
  table.writeBigUInt64LE(BigInt(parts.length + 1), 0);
  let offset = table.length;
  ['', ...parts].forEach((part, index) => {
    offset += part.length;
    table.writeBigUInt64LE(BigInt(offset), 8 * (index + 1));
  });
  return Buffer.concat([table, ...parts.map(part => Buffer.from(part))]);
}

function numbered(seq: number, msgId = `m${seq}`): Buffer {
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(seq));
  return Buffer.concat([head, frame(msgId)]);
}

/** Serves the records 1 to `newest` after `resume`, as the gateway does. */
function records(newest: () => number): typeof serve {
  return (socket, query) => {
    const position = Number(query.get('resume') ?? newest());
    socket.send(JSON.stringify({ op: 'attached', position, newest: newest() }));
    for (let seq = position + 1; seq <= newest(); seq += 1) {
      socket.send(numbered(seq));
    }
    socket.send(JSON.stringify({ op: 'live', position: newest() }));
  };
}

interface IOpened {
  readonly socket: WebSocket;
  readonly ids: (string | null)[];
}

function open(links: KernelSockets, sessionId = 'a', protocols: string[] = [V1]): IOpened {
  const { port } = server.address() as AddressInfo;
  const url = `ws://127.0.0.1:${port}/api/kernels/k/channels?session_id=${sessionId}`;
  const socket = new links.WebSocket(url, protocols);
  const ids: (string | null)[] = [];
  socket.binaryType = 'arraybuffer';
  socket.onmessage = event => ids.push(typeof event.data === 'string' ? event.data : messageId(event.data));
  return { socket, ids };
}

async function closed(socket: WebSocket): Promise<void> {
  socket.close();
  await until(() => socket.readyState === socket.CLOSED);
}

test('uses numbers with the gateway and v1 with the page, and acknowledges received messages', async () => {
  let newest = 0;
  serve = (socket, query) => {
    records(() => newest)(socket, query);
    newest = 2;
    socket.send(numbered(1));
    socket.send(numbered(2));
  };
  const { socket, ids } = open(new KernelSockets(WebSocket));
  await until(() => ids.length === 2);
  expect(ids).toEqual(['m1', 'm2']);
  expect(socket.protocol).toBe(V1);
  // Between the two messages it may have acknowledged the first.
  await until(() => sent.at(-1) === JSON.stringify({ op: 'ack', seq: 2 }));
});

// After a lost connection JupyterLab offers no protocol, and a page without numbers is never reattached.
test('uses numbers even where the page offers no protocol', async () => {
  serve = records(() => 1);
  const { socket, ids } = open(new KernelSockets(WebSocket), 'a', []);
  await until(() => socket.readyState === socket.OPEN);
  expect(socket.protocol).toBe(V1);
  const links = new KernelSockets(WebSocket);
  links.link('k', 'b').attached(0, () => undefined);
  const later = open(links, 'b', []);
  await until(() => later.ids.length === 1);
  expect(later.ids).toEqual(['m1']);
  expect(ids).toEqual([]);
});

test('the next socket of the same client continues where the last one ended', async () => {
  const links = new KernelSockets(WebSocket);
  let newest = 0;
  serve = (socket, query) => {
    records(() => newest)(socket, query);
    newest += 1;
    socket.send(numbered(newest));
  };
  const first = open(links);
  await until(() => first.ids.length === 1);
  await closed(first.socket);
  newest = 5;
  links.link('k', 'a').predecessors.add('earlier page');
  const second = open(links);
  await until(() => second.ids.at(-1) === 'm6');
  expect(second.ids).toEqual(['m2', 'm3', 'm4', 'm5', 'm6']);
  expect(queries[0]?.get('resume')).toBeNull();
  expect(queries[1]?.get('resume')).toBe('1');
  expect(queries[1]?.getAll('predecessor')).toEqual(['earlier page']);
  const other = open(links, 'b');
  await until(() => other.ids.length === 1);
  expect(queries[2]?.get('resume')).toBeNull();
});

test('the next socket names the last message of each channel, so that renumbered messages are recognised', async () => {
  const links = new KernelSockets(WebSocket);
  const long = 'x'.repeat(257);
  const numberedOn = (seq: number, msgId: string, channel: string): Buffer =>
    Buffer.concat([numbered(seq).subarray(0, 8), frame(msgId, 'p', channel)]);
  serve = socket => {
    socket.send(JSON.stringify({ op: 'attached', position: 0, newest: 0 }));
    for (const [seq, id, channel] of [
      [1, 'busy', 'iopub'],
      [2, 'reply', 'shell'],
      [3, 'idle', 'iopub'],
      [4, long, 'control'],
      // Messages made by the gateway itself are in no journal.
      [0, 'notice', 'iopub']
    ] as const) {
      socket.send(numberedOn(seq, id, channel));
    }
  };
  const first = open(links);
  await until(() => first.ids.length === 5);
  await closed(first.socket);
  open(links);
  await until(() => queries.length === 2);
  expect(queries[0]?.getAll('last')).toEqual([]);
  expect(queries[1]?.get('resume')).toBe('4');
  // The gateway would refuse an id of that length, and with it the socket.
  expect(queries[1]?.getAll('last').sort()).toEqual(['iopub:idle', 'shell:reply']);
});

test('a hold passes nothing, then the inserted messages, then the waiting ones except the dropped ones', async () => {
  const links = new KernelSockets(WebSocket);
  const gateways: ServerSocket[] = [];
  serve = (socket, query) => {
    records(() => 0)(socket, query);
    gateways.push(socket);
  };
  const connected = (): ServerSocket => {
    const [socket] = gateways;
    if (!socket) throw new Error('No socket was opened.');
    return socket;
  };
  const { ids } = open(links);
  const link = links.link('k', 'a');
  await until(() => link.isNumbered);
  const hold = link.hold();
  expect(hold).not.toBeNull();
  expect(link.hold()).toBeNull();
  for (let seq = 1; seq <= 4; seq += 1) {
    connected().send(numbered(seq));
  }
  // A pong arrives after everything that was sent before its ping.
  await new Promise(resolve => {
    connected().once('pong', resolve);
    connected().ping();
  });
  expect(ids).toEqual([]);
  const inserted = frame('inserted');
  hold?.finish([new Uint8Array(inserted).buffer], seq => seq <= 2);
  expect(ids).toEqual(['inserted', 'm3', 'm4']);
  expect(link.position).toBe(4);
  expect(hold?.isOver).toBe(true);
});

test('a hold whose socket is lost is over, and waiting messages arrive with the next socket', async () => {
  const links = new KernelSockets(WebSocket);
  let newest = 0;
  serve = (socket, query) => {
    records(() => newest)(socket, query);
    if (newest === 0) {
      newest = 1;
      socket.send(numbered(1));
    }
  };
  const first = open(links);
  const link = links.link('k', 'a');
  await until(() => link.isNumbered);
  const hold = link.hold();
  await closed(first.socket);
  const second = open(links);
  await until(() => link.isNumbered);
  expect(hold?.isOver).toBe(true);
  hold?.finish([new Uint8Array(frame('inserted')).buffer]);
  await until(() => [...first.ids, ...second.ids].includes('m1'));
  expect([...first.ids, ...second.ids]).toEqual(['m1']);
});

test('a message that is kept back is not sent, all others are', async () => {
  const links = new KernelSockets(WebSocket);
  serve = records(() => 0);
  const { socket } = open(links);
  const link = links.link('k', 'a');
  await until(() => link.isNumbered);
  link.skipSent('request');
  for (const id of ['before', 'request', 'request']) {
    socket.send(new Uint8Array(frame(id)).buffer);
  }
  await until(() => sent.filter(id => id === 'request').length === 1);
  expect(sent).toEqual(['before', 'request']);
});

test('a server that supports only v1 is used in v1', async () => {
  subprotocol = V1;
  serve = socket => socket.send(frame('plain'));
  const links = new KernelSockets(WebSocket);
  const { socket, ids } = open(links);
  await until(() => ids.length === 1);
  expect(ids).toEqual(['plain']);
  expect(socket.protocol).toBe(V1);
  expect(links.link('k', 'a').hold()).toBeNull();
});

test('sockets without a kernel stay unchanged', async () => {
  serve = socket => socket.send('text');
  const { port } = server.address() as AddressInfo;
  const socket = new new KernelSockets(WebSocket).WebSocket(`ws://127.0.0.1:${port}/bridge/v1/events`);
  const received: unknown[] = [];
  socket.onmessage = event => received.push(event.data);
  await until(() => received.length === 1);
  expect(received).toEqual(['text']);
});
