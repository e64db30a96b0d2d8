/** Requests and sockets through the forwarder to foreign servers, which record what they receive. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer as createNetServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { BridgeError, HandshakeRefused } from '@tpulab/platform/errors.js';
import { RemoteGateway } from '../../../../machines/src/remote-gateway.js';
import { remoteSocket, forwardRequest, openRemoteSocket } from './forwarder.js';

const OURS = { 'access-control-allow-origin': 'http://page', vary: 'Origin' };
const FAR_TOKEN = 'token-of-the-far-side';
const MIB = 1024 * 1024;

let folder: string;
let far: Server;
let near: Server;
let gateway: RemoteGateway;
let refused: number;
let answer: (request: IncomingMessage, response: ServerResponse) => void;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  refused = 0;
  answer = (_request, response) => response.end('hello');
  far = createServer((request, response) => answer(request, response));
  const socketPath = path.join(folder, 'far.sock');
  far.listen(socketPath);
  gateway = new RemoteGateway({ socketPath, token: FAR_TOKEN });
  const fixed = {
    name: 'vm',
    gateway,
    refused: () => {
      refused++;
    }
  };
  near = createServer((request, response) => {
    void forwardRequest({
      ...fixed,
      request: request,
      response,
      target: request.url!,
      headers: OURS,
      fail: error => response.writeHead(error.status, { connection: 'close' }).end(error.code)
    });
  });
  near.on('upgrade', (request: IncomingMessage, client: Socket, head: Buffer) => {
    const protocols = new WebSocketServer({ noServer: true, handleProtocols: () => chosen });
    let chosen: string | false = false;
    openRemoteSocket({
      ...fixed,
      request: request,
      target: request.url!,
      signal: new AbortController().signal
    }).then(
      opened => {
        chosen = opened.protocol || false;
        protocols.handleUpgrade(request, client, head, socket =>
          remoteSocket(opened, () => undefined).start(socket)
        );
      },
      (error: unknown) => {
        const isStatus = error instanceof HandshakeRefused || error instanceof BridgeError;
        client.end(`HTTP/1.1 ${isStatus ? error.status : 500} no\r\n\r\n`);
      }
    );
  });
  near.listen(0, '127.0.0.1');
  await Promise.all([once(far, 'listening'), once(near, 'listening')]);
});

afterEach(async () => {
  gateway[Symbol.dispose]();
  for (const server of [far, near]) {
    server.closeAllConnections();
    server.close();
  }
  await rm(folder, { recursive: true, force: true });
});

const port = (): number => (near.address() as AddressInfo).port;
const url = (target: string): string => `http://127.0.0.1:${port()}${target}`;

/** Sends raw bytes to the near side; resolves with the complete reply. */
async function raw(text: string): Promise<string> {
  const socket = connect(port(), '127.0.0.1');
  socket.write(text, 'latin1');
  let all = '';
  for await (const chunk of socket.setEncoding('latin1')) all += String(chunk);
  return all;
}

describe('a request', () => {
  it('arrives with the token of the far side, without our token, and without anything from the page', async () => {
    let seen: IncomingMessage | null = null;
    answer = (request, response) => {
      seen = request;
      response.end();
    };
    await raw(
      [
        'GET /a%2Fb/../c?x=1&token=OURS&%74oken=OURS&y=%20 HTTP/1.1',
        'Host: 127.0.0.1:1',
        'Authorization: token OURS',
        'Origin: http://page',
        'Cookie: a=b',
        'X-XSRFToken: z',
        'X-Weird_Name: caf\u00e9  and  spaces',
        'X-Twice: 1',
        'x-twice: 2',
        'X-Secret-Hop: gone',
        'Connection: close, X-Secret-Hop',
        '',
        ''
      ].join('\r\n')
    );
    expect(seen!.url).toBe('/a%2Fb/../c?x=1&y=%20');
    expect(seen!.headers).toMatchObject({ host: 'localhost', authorization: `token ${FAR_TOKEN}` });
    const names = seen!.rawHeaders.filter((_, index) => index % 2 === 0);
    expect(names).toEqual(['host', 'connection', 'Authorization', 'X-Weird_Name', 'X-Twice', 'x-twice']);
    expect(seen!.rawHeaders).toContain('caf\u00e9  and  spaces');
    expect(JSON.stringify(seen!.rawHeaders) + seen!.url!).not.toContain('OURS');
  });

  it('gets status, body and the headers of a short list, with our own access headers', async () => {
    answer = (_request, response) => {
      response.writeHead(201, 'Made it', [
        ...['Location', '/api/kernels/1', 'X-Odd', 'a', 'Set-Cookie', 'no=1', 'Refresh', '0; url=/'],
        ...['Access-Control-Allow-Origin', '*', 'Vary', 'Origin', 'Content-Type', 'application/json'],
        ...['ETag', '"1"', 'Content-Length', '8', 'X-TPULab-Writable', 'true']
      ]);
      response.end('{"a": 1}');
    };
    const text = await raw('POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
    const [head = '', body] = text.split('\r\n\r\n');
    const [status, ...lines] = head.split('\r\n');
    expect([status, body]).toEqual(['HTTP/1.1 201 Created', '{"a": 1}']);
    expect(new Set(lines.filter(line => !line.startsWith('Date:')))).toEqual(
      new Set([
        ...['content-type: application/json', 'etag: "1"', 'content-length: 8', 'x-tpulab-writable: true'],
        ...['access-control-allow-origin: http://page', 'vary: Origin', 'Connection: close']
      ])
    );
  });

  // Whatever the far side answers, we refuse it in our own words or pass on a valid answer.
  it.each([
    ...[300, 301, 302, 303, 304, 305, 307, 308, 399].map((code): [string] => [
      `HTTP/1.1 ${code} x\r\nLocation: /../../bridge/v1/trash\r\nContent-Length: 0\r\n\r\n`
    ]),
    ['HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 099 x\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 103 x\r\nLink: </x>; rel=preload\r\n\r\n'],
    ['HTTP/1.1 199 x\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 600 x\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'],
    ['HTTP/1.1 100 Continue\r\n\r\n'],
    ['HTTP/1.1 200 x\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 200 x\r\nContent-Type: text/plain\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 200 x\r\nETag: "a\x01b"\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 200 x\r\nX-Other: a\x7fb\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 200 x\r\nETag: "a"\r\netag: "b"\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 200 x\r\nETag: "a"\r\n "b"\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 200 x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    ['HTTP/1.1 200 x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['HTTP/1.1 200 x\r\nContent-Type: text/html; x=<script>\r\nContent-Length: 0\r\n\r\n'],
    ['HTTP/1.1 200 x\r\nContent-Encoding: zstd\r\nContent-Length: 0\r\n\r\n'],
    [`HTTP/1.1 200 x\r\nETag: "${'a'.repeat(20_000)}"\r\nContent-Length: 0\r\n\r\n`],
    ['HTTP/1.1 two hundred\r\n\r\n'],
    ['HTTP/9.9 200 OK\r\n\r\n'],
    ['220 mail.example ESMTP\r\n'],
    ['\0\0\0\0\r\n\r\n']
  ])('is 502, without a byte of the answer, after %j', async bytes => {
    const open = new Set<Socket>();
    far.removeAllListeners('connection');
    far.on('connection', (socket: Socket) => {
      open.add(socket);
      socket.on('error', () => undefined).once('data', () => socket.write(bytes, 'latin1'));
    });
    const found = await fetch(url('/x'), { redirect: 'manual' });
    expect([found.status, await found.text()]).toEqual([502, 'remote_bad_answer']);
    expect([
      found.headers.get('location'),
      found.headers.get('set-cookie'),
      found.headers.get('link')
    ]).toEqual([...[null, null, null]]);
    for (const socket of open) socket.destroy();
  });

  it.each(['\xff', 'a\x01b', 'a\x7fb', '\x1b[2J', 'x'.repeat(8_000), ''])(
    'of the reason %j of an answer no byte passes',
    async reason => {
      far.removeAllListeners('connection');
      const body = 'Content-Length: 2\r\nConnection: close\r\n\r\nok';
      far.on('connection', (socket: Socket) => {
        socket
          .on('error', () => undefined)
          .once('data', () => socket.end(`HTTP/1.1 200 ${reason}\r\n${body}`, 'latin1'));
      });
      const found = await fetch(url('/x'));
      const text = await found.text();
      expect([
        [200, 'OK', 'ok'],
        [502, 'Bad Gateway', 'remote_bad_answer']
      ]).toContainEqual([...[found.status, found.statusText, text]]);
    }
  );

  it('streams its body in both directions as it arrives, and is never buffered as a whole', async () => {
    answer = (request, response) => void request.pipe(response);
    const sent = request(url('/echo'), { method: 'POST' });
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
    sent.write('first');
    const [response] = await answered;
    response.setEncoding('utf8');
    const [chunk] = (await once(response, 'data')) as [string];
    expect(chunk).toBe('first');
    sent.end('second');
    let rest = '';
    for await (const piece of response) rest += String(piece);
    expect(rest).toBe('second');
  });

  it('is not read faster than the far side accepts it', async () => {
    const arrived = new Promise<() => void>(resolve => {
      answer = (request, response) => {
        request.pause();
        resolve(() => request.resume().on('end', () => response.end('done')));
      };
    });
    const sent = request(url('/slow'), { method: 'PUT' });
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
    const block = Buffer.alloc(MIB);
    for (let count = 0; count < 64; count++) sent.write(block);
    const proceed = await arrived;
    await vi.waitFor(() => expect(sent.writableNeedDrain).toBe(true), 30_000);
    // Much of it is still on the sender's side: no part in between has read it all.
    expect(sent.writableLength).toBeGreaterThan(16 * MIB);
    proceed();
    sent.end();
    const [response] = await answered;
    expect(response.statusCode).toBe(200);
    response.resume();
    await once(response, 'end');
  });

  it('ends on the far side too when the client disconnects', async () => {
    const left = new Promise<void>(resolve => {
      answer = (_request, response) => {
        response.write('a beginning');
        response.once('close', () => resolve());
      };
    });
    const sent = request(url('/')).end();
    sent.on('error', () => undefined);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.on('error', () => undefined);
    response.destroy();
    await left;
  });

  it('an answer that is cut off is cut off for the client too, and does not become a shorter answer', async () => {
    answer = (_request, response) => {
      response.writeHead(200, { 'content-length': 100 });
      response.write('only this', () => response.socket!.destroy());
    };
    await expect(fetch(url('/')).then(found => found.text())).rejects.toThrow();
  });

  it('is 503 immediately when no program listens on the far side', async () => {
    far.close();
    far.closeAllConnections();
    await rm(path.join(folder, 'far.sock'), { force: true });
    const found = await fetch(url('/api/kernels'));
    expect([found.status, await found.text()]).toEqual([503, 'remote_unavailable']);
  });

  it('is 503, and never 403, when the far side does not accept its own token', async () => {
    answer = (_request, response) => response.writeHead(403).end('who are you?');
    const found = await fetch(url('/'));
    expect([found.status, await found.text(), refused]).toEqual([503, 'remote_unavailable', 1]);
  });

  it('goes through on another connection when the pooled one has been closed meanwhile', async () => {
    const sockets: Socket[] = [];
    far.on('connection', (socket: Socket) => sockets.push(socket));
    for (let round = 0; round < 5; round++) {
      const found = await fetch(url('/'));
      expect(await found.text()).toBe('hello');
      for (const socket of sockets) socket.destroy();
    }
  });

  it.each(['POST', 'DELETE', 'PATCH'])(
    'a %s reaches the far side once, though its connection breaks',
    async method => {
      const seen: string[] = [];
      answer = (request, response) => {
        seen.push(request.method!);
        if (request.method === 'GET') response.end('hello');
        else request.socket.destroy();
      };
      await (await fetch(url('/'))).text(); // This leaves a pooled connection that could be reused.
      expect((await fetch(url('/restart'), { method })).status).toBe(503);
      expect(seen).toEqual(['GET', method]);
    }
  );

  it.each([
    ['garbage', 'nonsense\r\n\r\n'],
    ['two lengths', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    [
      'a length and chunks',
      'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n'
    ]
  ])('%s never reaches the far side as a second request', async (_what, text) => {
    const seen: string[] = [];
    answer = (request, response) => {
      seen.push(request.url!);
      response.end();
    };
    expect(await raw(text)).toMatch(/^HTTP\/1\.1 400/);
    expect(seen).toEqual([]);
  });
});

describe('a WebSocket', () => {
  function remoteSockets(): { next: Promise<[WebSocket, IncomingMessage]> } {
    const server = new WebSocketServer({
      noServer: true,
      handleProtocols: protocols => [...protocols].at(-1)!
    });
    const next = new Promise<[WebSocket, IncomingMessage]>(resolve =>
      far.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) =>
        server.handleUpgrade(request, socket, head, opened => resolve([opened, request]))
      )
    );
    return { next };
  }

  it('is passed on with its subprotocols, messages of any size and its close code', async () => {
    const { next } = remoteSockets();
    const client = new WebSocket(url('/ws?token=OURS&a=1').replace('http', 'ws'), ['one', 'two']);
    const [[server, request]] = await Promise.all([next, once(client, 'open')]);
    expect(client.protocol).toBe('two');
    expect([request.url, request.headers.authorization]).toEqual(['/ws?a=1', `token ${FAR_TOKEN}`]);
    server.on('message', (data, isBinary) => server.send(data, { binary: isBinary }));
    for (const message of [Buffer.alloc(0), Buffer.alloc(3 * MIB, 9)]) {
      const echo = once(client, 'message');
      client.send(message);
      expect(((await echo) as [Buffer])[0].equals(message)).toBe(true);
    }
    const closed = once(client, 'close');
    server.close(4321, 'because');
    const [code, reason] = (await closed) as [number, Buffer];
    expect([code, reason.toString()]).toEqual([4321, 'because']);
  });

  it('is closed with a code after which clients reconnect when the far side ends', async () => {
    const { next } = remoteSockets();
    const client = new WebSocket(url('/ws').replace('http', 'ws'));
    const [[server]] = await Promise.all([next, once(client, 'open')]);
    const closed = once(client, 'close');
    server.terminate();
    expect(((await closed) as [number])[0]).toBe(1012);
  });

  it('is closed in the middle of a frame, too: an unfinished frame of the far side does not arrive', async () => {
    const { next } = remoteSockets();
    const client = new WebSocket(url('/ws').replace('http', 'ws'));
    const [[server]] = await Promise.all([next, once(client, 'open')]);
    const socket = (server as unknown as { _socket: Socket })._socket;
    client.on('message', () => expect.unreachable());
    const closed = once(client, 'close');
    socket.write(Buffer.from([0x82, 100, 1, 2, 3]), () => socket.destroy());
    expect(((await closed) as [number])[0]).toBe(1012);
  });

  it('passes a ping and its answer on to the other end', async () => {
    const { next } = remoteSockets();
    const client = new WebSocket(url('/ws').replace('http', 'ws'));
    const [[server]] = await Promise.all([next, once(client, 'open')]);
    const [seen, answered] = [once(client, 'ping'), once(server, 'pong')];
    server.ping('17');
    expect(String(((await seen) as [Buffer])[0])).toBe('17');
    expect(String(((await answered) as [Buffer])[0])).toBe('17');
    client.terminate();
  });

  it('a slow client slows down the far side, and nothing is lost', async () => {
    const { next } = remoteSockets();
    const client = new WebSocket(url('/ws').replace('http', 'ws'));
    const [[server]] = await Promise.all([next, once(client, 'open')]);
    client.pause();
    const block = Buffer.alloc(MIB, 5);
    for (let count = 0; count < 48; count++) server.send(block);
    await vi.waitFor(() => expect(server.bufferedAmount).toBeGreaterThan(16 * MIB), 30_000);
    let bytes = 0;
    const all = new Promise<void>(resolve =>
      client.on('message', (data: Buffer) => {
        bytes += data.length;
        if (bytes === 48 * MIB) resolve();
      })
    );
    client.resume();
    await all;
    client.terminate();
  });

  it('a refusal of the far side is passed on, except a refusal of our token', async () => {
    const statuses: (number | undefined)[] = [];
    for (const status of [404, 503, 403]) {
      far.removeAllListeners('upgrade');
      far.on('upgrade', (_request: IncomingMessage, socket: Socket) =>
        socket.end(`HTTP/1.1 ${status} no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`)
      );
      const client = new WebSocket(url('/ws').replace('http', 'ws'));
      client.on('error', () => undefined);
      const [, response] = (await once(client, 'unexpected-response')) as [unknown, IncomingMessage];
      statuses.push(response.statusCode);
      response.resume();
      client.terminate();
    }
    expect([statuses, refused]).toEqual([[404, 503, 503], 1]);
  });

  it('that was refused forwards nothing: further output of the far side does not arrive', async () => {
    far.on('upgrade', (_request: IncomingMessage, socket: Socket) => {
      socket.write('HTTP/1.1 404 Not\x1b[2J Here\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\n\r\n');
      socket.write('<script>alert(1)</script>');
      socket.on('error', () => undefined);
    });
    const text = await raw(
      'GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n'
    );
    expect(text).toBe('HTTP/1.1 404 no\r\n\r\n');
  });

  it.each([
    ['a cookie', 'HTTP/1.1 101 x\r\nACCEPT\r\nSet-Cookie: _xsrf=theirs; Path=/', 101],
    ['a cookie behind a bare line feed', 'HTTP/1.1 101 x\nSet-Cookie: evil=1; Path=/\r\nACCEPT', 502],
    ['a cookie in a value', 'HTTP/1.1 101 x\r\nACCEPT\r\nX-Y: websocket\nSet-Cookie: evil=2', 502],
    ['compression', 'HTTP/1.1 101 x\r\nACCEPT\r\nSec-WebSocket-Extensions: permessage-deflate', 502],
    ['a protocol of nobody', 'HTTP/1.1 101 x\r\nACCEPT\r\nSec-WebSocket-Protocol: odd', 502],
    [
      'a wrong proof',
      'HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: no',
      502
    ],
    ['a redirect', 'HTTP/1.1 307 x\r\nLocation: /../../bridge/v1/events', 502],
    ['an answer', 'HTTP/1.1 200 x\r\nContent-Length: 0', 502],
    ['an answer before it', 'HTTP/1.1 099 x', 502]
  ])('whose handshake has %s passes none of it to the browser', async (_what, head, status) => {
    let offered: unknown = 'nothing was asked';
    far.removeAllListeners('connection');
    far.on('connection', (socket: Socket) => {
      socket
        .on('error', () => undefined)
        .once('data', (chunk: Buffer) => {
          const request = chunk.toString('latin1');
          offered = /^sec-websocket-extensions:/im.test(request);
          const key = /^sec-websocket-key: (.*)\r$/im.exec(request)?.[1];
          const accept = createHash('sha1')
            .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
            .digest('base64');
          const right = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}`;
          socket.write(`${head.replace('ACCEPT', right)}\r\n\r\n`, 'latin1');
          socket.once('end', () => socket.destroy());
        });
    });
    const asking =
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\n';
    const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n';
    const socket = connect(port(), '127.0.0.1');
    socket.write(`GET /ws HTTP/1.1\r\nHost: x\r\n${asking}${key}`);
    const [first] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    expect(first.toString('latin1')).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(first.toString('latin1')).not.toMatch(/cookie|extensions|location|evil/i);
    expect(offered).toBe(false);
  });

  it('a far side that answers with another protocol is 502', async () => {
    far.close();
    far.closeAllConnections();
    const socketPath = path.join(folder, 'far.sock');
    await rm(socketPath, { force: true });
    const odd = createNetServer(socket => socket.end('220 mail.example ESMTP\r\n')).listen(socketPath);
    await once(odd, 'listening');
    const client = new WebSocket(url('/ws').replace('http', 'ws'));
    client.on('error', () => undefined);
    const [, response] = (await once(client, 'unexpected-response')) as [unknown, IncomingMessage];
    expect(response.statusCode).toBe(502);
    client.terminate();
    odd.close();
  });
});
