import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { GatheringWebSocket, Opcode } from './gathering-websocket.js';

/** Tested with the client of `ws`, which refuses a frame that breaks RFC 6455. */
let http: Server;
let ours: GatheringWebSocket;
let stream: Duplex;
let client: WebSocket;
/** Received messages, in order. */
let got: string[];

beforeEach(async () => {
  const own: string[] = (got = []);
  http = createServer();
  const sockets = new WebSocketServer({
    noServer: true,
    WebSocket: GatheringWebSocket,
    perMessageDeflate: false
  });
  const opened = new Promise<void>(resolve => {
    http.on('upgrade', (request, below, head) =>
      sockets.handleUpgrade(request, below, head, socket => {
        [ours, stream] = [socket, below];
        socket.writeTo(below);
        resolve();
      })
    );
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  client = new WebSocket(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`);
  client.on('message', (data, isBinary) => {
    const bytes = data as Buffer;
    own.push(`${isBinary ? 'binary' : 'text'} ${bytes.length} ${bytes.subarray(0, 12).toString('latin1')}`);
  });
  client.on('ping', data => own.push(`ping ${data.toString()}`));
  client.on('close', code => own.push(`close ${code}`));
  await Promise.all([opened, once(client, 'open')]);
});

afterEach(() => {
  client.terminate();
  ours.terminate();
  http.close();
});

const until = (condition: () => boolean): Promise<boolean> => vi.waitUntil(condition, { timeout: 30_000 });

describe('a socket that gathers', () => {
  it('sends every length as its client expects it', async () => {
    const lengths = [0, 1, 125, 126, 127, 16_384, 16_385, 65_535, 65_536, 70_000, 3_000_000, 5];
    for (const length of lengths) ours.gather(Opcode.binary, null, Buffer.alloc(length, 'x'));
    await until(() => got.length === lengths.length);
    expect(got).toEqual(lengths.map(length => `binary ${length} ${'x'.repeat(Math.min(12, length))}`));
  });

  it('puts a prefix before the payload, and distinguishes text from bytes', async () => {
    ours.gather(Opcode.binary, Buffer.from('12345678'), Buffer.from('nine'));
    ours.gather(Opcode.text, null, Buffer.from('words'));
    ours.gather(Opcode.binary, Buffer.from('12345678'), Buffer.alloc(100_000, 'y'));
    await until(() => got.length === 3);
    expect(got).toEqual(['binary 12 12345678nine', 'text 5 words', 'binary 100008 12345678yyyy']);
  });

  it('writes the messages of a turn together', async () => {
    const write = vi.spyOn(stream, 'write');
    for (let n = 0; n < 50; n++) ours.gather(Opcode.binary, null, Buffer.from(`message ${n}`));
    await until(() => got.length === 50);
    expect(write).toHaveBeenCalledTimes(1);
  });

  it('keeps the order of pings, other messages and the close frame', async () => {
    ours.gather(Opcode.binary, null, Buffer.from('a'));
    ours.ping('after a');
    ours.gather(Opcode.binary, null, Buffer.from('b'));
    ours.send('after b');
    ours.gather(Opcode.binary, null, Buffer.from('c'));
    ours.close(1012, 'bye');
    ours.gather(Opcode.binary, null, Buffer.from('too late'));
    await until(() => got.at(-1) === 'close 1012');
    expect(got).toEqual([
      'binary 1 a',
      'ping after a',
      'binary 1 b',
      'text 7 after b',
      'binary 1 c',
      'close 1012'
    ]);
  });

  it('receives every length as its client sent it', async () => {
    const seen: string[] = [];
    ours.on('message', data => seen.push((data as Buffer).toString('latin1')));
    const sent = [0, 5, 1023, 1024, 1025, 1026, 1027, 70_001, 1_000_003].map(length =>
      Array.from({ length }, (_, at) => String.fromCharCode(48 + ((at * 7) % 64))).join('')
    );
    for (const text of sent) client.send(Buffer.from(text, 'latin1'));
    await until(() => seen.length >= sent.length);
    expect(seen.slice(0, sent.length)).toEqual(sent);
  });

  it('sends its gathered messages before it answers a close frame', async () => {
    ours.on('message', () => ours.gather(Opcode.binary, null, Buffer.from('an answer')));
    client.send('a question');
    client.close(1000);
    await until(() => got.at(-1)?.startsWith('close') === true);
    expect(got).toEqual(['binary 9 an answer', 'close 1000']);
  });

  it('does not overwrite data that a slow client has not received, and reports the size of that data', async () => {
    client.pause();
    const texts = Array.from(
      { length: 3_000 },
      (_, n) => `${String(n).padStart(5, '0')}${'z'.repeat(9_000)}`
    );
    for (const [n, text] of texts.entries()) {
      ours.gather(Opcode.binary, null, Buffer.from(text));
      if (n % 20 === 0) await turn();
    }
    expect(ours.unsentBytes).toBeGreaterThan(1_000_000);
    const seen: string[] = [];
    client.removeAllListeners('message').on('message', data => seen.push((data as Buffer).toString()));
    client.resume();
    await until(() => seen.length === texts.length);
    expect(seen).toEqual(texts);
    expect(ours.unsentBytes).toBe(0);
  });
});
