/**
 * A remote that sends arbitrary bytes from a grammar of HTTP and its faults, briefly here and for a chosen time in
 * `npm run fuzz`. Whatever it sends: the gateway stays up, this machine does not change, none of its data leaks, and its disk use
 * is bounded.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Remote, STREAM_FRAME, StreamNote } from '@tpulab/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { RECORD_OVERHEAD, writeRecord } from '../journal/record-codec.js';
import { HOSTILE_ANSWER, wrongValuesOf, SSH_WITH_WRONG_ANSWERS } from '../remotes/testing/wrong-values.js';
import { TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

const FUZZ_MS = Number(process.env['TPULAB_FUZZ_MS'] ?? 8_000);
const SEED = Number(process.env['TPULAB_FUZZ_SEED'] ?? Date.now() % 2 ** 31);
vi.setConfig({ testTimeout: FUZZ_MS * 2 + 120_000, hookTimeout: 120_000 });

const MIB = 1024 * 1024;
const QUOTA = 4 * MIB;
const SECRET = 'secret-of-the-environment-1234567890';
const ID = 'the-gateway';
/** Longer than the answers that take one second; no request repeats within this time. */
const PATIENCE_MS = 1_500;

let folder: string;
let liar: Server;
let bridge: TemporaryGateway;
const sockets = new Set<Socket>();
let received = '';
let count = 0;

/** One of the values; the same seed gives the same value. */
function one<T>(values: fc.Arbitrary<T>): T {
  return fc.sample(values, { numRuns: 1, seed: SEED + count++ })[0] as T;
}

function frame(type: number, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32LE(body.length, 0);
  head.writeUInt8(type, 4);
  return Buffer.concat([head, body]);
}

/** Valid records, records with holes, repeated records, and invalid ones; notes with false content. */
function stream(socket: Socket, from: number): void {
  socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n\r\n');
  let seq = from;
  for (let left = one(fc.integer({ min: 1, max: 60 })); left > 0; left--) {
    const what = one(fc.integer({ min: 0, max: 9 }));
    if (what === 0)
      socket.write(frame(STREAM_FRAME.note, Buffer.from(JSON.stringify(one(wrongValuesOf(StreamNote))))));
    else if (what === 1) socket.write(Buffer.from(one(fc.uint8Array({ maxLength: 40 }))));
    else {
      const bytes = one(fc.constantFrom(1, 100, 50_000, MIB));
      const record = Buffer.alloc(RECORD_OVERHEAD + bytes);
      seq += what === 2 ? one(fc.integer({ min: -2, max: 100_000 })) : 1;
      writeRecord(record, 0, Math.max(seq, 1), 1n, 4, [Buffer.alloc(bytes, 'x')]);
      socket.write(frame(STREAM_FRAME.records, record));
    }
  }
  socket.end();
}

function answer(socket: Socket, head: string): void {
  const target = /^\S+ (\S+)/.exec(head)?.[1] ?? '';
  const key = /^sec-websocket-key: (.*)$/im.exec(head)?.[1]?.trim();
  const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  const health = JSON.stringify({ gatewayId: ID, status: 'ok', notice: null });
  if (target === '/bridge/v1/health' && one(fc.integer({ min: 0, max: 9 })) > 0) {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${health.length}\r\n\r\n${health}`);
  } else if (target === '/bridge/v1/events' && one(fc.boolean())) {
    const kernelId = `00000000-0000-4000-8000-00000000000${one(fc.integer({ min: 0, max: 9 }))}`;
    const event = {
      topic: 'kernels',
      kernelId,
      name: 'x',
      executionState: 'busy',
      connections: 0,
      reason: null,
      removed: false
    };
    const text = JSON.stringify({ op: 'events', events: [event] });
    const opening = `HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`;
    socket.write(
      Buffer.concat([
        Buffer.from(opening),
        Buffer.from([0x81, 126, text.length >> 8, text.length & 255]),
        Buffer.from(text)
      ])
    );
  } else if (target.includes('/journal/stream') && one(fc.integer({ min: 0, max: 3 })) > 0) {
    stream(socket, Number(/from=(\d+)/.exec(target)?.[1] ?? 1) - 1);
  } else {
    const bytes = Buffer.from(one(HOSTILE_ANSWER).replace('ACCEPT', accept), 'latin1');
    const cut = one(fc.integer({ min: 0, max: bytes.length }));
    socket.write(bytes.subarray(0, cut));
    setImmediate(() => {
      if (socket.destroyed) return;
      socket.write(bytes.subarray(cut));
      const end = one(fc.integer({ min: 0, max: 3 }));
      if (end === 0) socket.destroy();
      else if (end === 1) socket.end();
    });
  }
}

beforeAll(async () => {
  vi.stubEnv('TPULAB_FUZZ_SECRET', SECRET);
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  await writeFile(path.join(folder, 'ssh'), SSH_WITH_WRONG_ANSWERS);
  await chmod(path.join(folder, 'ssh'), 0o700);
  liar = createServer(socket => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    let read = '';
    socket.on('data', (chunk: Buffer) => {
      const text = chunk.toString('latin1');
      received = (received + text).slice(-MIB);
      if (received.includes(TOKEN) || received.includes(SECRET))
        throw new Error('a secret of this machine was sent');
      read = (read + text).slice(-65_536);
      for (let end = read.indexOf('\r\n\r\n'); end >= 0; end = read.indexOf('\r\n\r\n')) {
        const head = read.slice(0, end);
        read = read.slice(end + 4);
        answer(socket, head);
      }
    });
  });
  const socketPath = path.join(folder, 'liar.sock');
  await once(liar.listen(socketPath), 'listening');
  const prepared = { socketPath, token: 'a-token-of-the-liar', gatewayId: ID, version: '0' };
  const setup = { prepare: () => Promise.resolve(prepared), clean: () => Promise.resolve() };
  bridge = await TemporaryGateway.start({
    remotes: { setup, sshProgram: path.join(folder, 'ssh') },
    journal: { kernelBytes: QUOTA, totalBytes: QUOTA }
  });
  await bridge.gateway.ready;
});

afterAll(async () => {
  await bridge[Symbol.asyncDispose]();
  for (const socket of sockets) socket.destroy();
  liar.close();
  await rm(folder, { recursive: true, force: true });
  vi.unstubAllEnvs();
});

function bytesBelow(place: string): number {
  let bytes = 0;
  for (const entry of readdirSync(place, { withFileTypes: true })) {
    const file = path.join(place, entry.name);
    try {
      bytes += entry.isDirectory() ? bytesBelow(file) : statSync(file).size;
    } catch {
      // The entry has just been removed.
    }
  }
  return bytes;
}

const ALLOWED =
  /^(accept-ranges|allow|cache-control|content-(disposition|encoding|length|range|type|security-policy)|etag|last-modified|retry-after|x-tpulab-\w+|x-content-type-options|vary|date|connection|keep-alive|transfer-encoding)$/;

async function request(): Promise<void> {
  const method = one(fc.constantFrom('GET', 'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'));
  const target = one(
    fc.constantFrom('api/kernels', 'api/kernels/x', 'bridge/v1/files/victim.txt', 'bridge/v1/trash')
  );
  const response = await fetch(`${bridge.url}machines/liar/${target}`, {
    method,
    redirect: 'manual',
    headers: { authorization: `token ${TOKEN}` },
    signal: AbortSignal.timeout(PATIENCE_MS),
    ...(/^P/.test(method) ? { body: '{}' } : {})
  }).catch(() => null);
  if (response === null) return;
  expect(
    response.status === 502 ||
      response.status === 503 ||
      (response.status >= 200 && response.status < 300) ||
      response.status >= 400
  ).toBe(true);
  for (const [name] of response.headers) expect(name).toMatch(ALLOWED);
  expect(response.headers.get('content-security-policy') ?? 'sandbox; ').toMatch(
    /^(sandbox; |frame-ancestors 'self'; )/
  );
  await response.arrayBuffer().catch(() => null);
}

async function open(): Promise<void> {
  const socket = new WebSocket(
    `${bridge.url.replace('http', 'ws')}machines/liar/api/kernels/x/channels`,
    ['a', 'b'],
    {
      headers: { authorization: `token ${TOKEN}` }
    }
  );
  const closed = new Promise<void>(resolve => socket.once('close', () => resolve()));
  socket.on('upgrade', ({ headers }) => {
    expect(Object.keys(headers).sort()).toEqual(
      expect.arrayContaining(['connection', 'sec-websocket-accept', 'upgrade'])
    );
    expect([headers['set-cookie'], headers['sec-websocket-extensions']]).toEqual([undefined, undefined]);
  });
  socket.on('error', () => undefined);
  const timer = setTimeout(() => socket.terminate(), PATIENCE_MS);
  socket.on('open', () => socket.send('{}'));
  await closed;
  clearTimeout(timer);
}

it(`the gateway survives, keeps its secrets and bounds its disk use (seed ${SEED})`, async () => {
  const escaped: unknown[] = [];
  const note = (error: unknown): void => void escaped.push(error);
  process.on('uncaughtExceptionMonitor', note);
  await writeFile(path.join(bridge.folder, 'victim.txt'), 'kept');
  const before = (await bridge.rest('GET', '/bridge/v1/health')).body as { gatewayId: string };
  const body = { name: 'liar', source: { kind: 'ssh', destination: 'liar' } };
  expect((await bridge.rest('POST', '/bridge/v1/machines', { body })).status).toBe(201);
  let connected = 0;
  for (const end = performance.now() + FUZZ_MS; performance.now() < end || connected === 0;) {
    await Promise.all([request(), request(), request(), open()]);
    const { state } = (await bridge.rest('GET', '/bridge/v1/machines/liar')).body as Remote;
    if (state === 'connected') connected++;
    else await bridge.rest('POST', '/bridge/v1/machines/liar/connect', { body: {} });
    const health = await bridge.rest('GET', '/bridge/v1/health');
    expect(health.body).toMatchObject({ status: 'ok', gatewayId: before.gatewayId });
    expect((await bridge.rest('GET', '/bridge/v1/files/victim.txt')).status).toBe(200);
    // Room for a frame, the gateway's stored positions, and its log of this remote.
    expect(bytesBelow(bridge.folder)).toBeLessThan(QUOTA + 2 * MIB + 4 * MIB);
  }
  process.off('uncaughtExceptionMonitor', note);
  expect(escaped).toEqual([]);
  expect(connected).toBeGreaterThan(0);
});
