/**
 * Malformed and hostile frames on the WebSockets of a live gateway: the socket that sent them is closed or gets an error, and
 * neither the kernel nor another client notices.
 */
import fc from 'fast-check';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { ChannelsClient } from '../../testing/channels-client.js';
import { rawRequest } from '../../testing/raw-request.js';
import { gatewayForAll } from '../../testing/shared-gateway.js';
import { TOKEN } from '../../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

const MIB = 1024 * 1024;
const V1 = 'v1.kernel.websocket.jupyter.org';
const bridge = gatewayForAll({ maxPayloadBytes: 8 * MIB });
let kernelId: string;
let witness: ChannelsClient;

beforeAll(async () => {
  kernelId = await bridge.startKernel();
  witness = await bridge.connect(kernelId);
  await witness.run('kept = 42');
});

afterAll(async () => {
  witness[Symbol.dispose]();
});

afterEach(async () => {
  const request = witness.execute('print(kept)');
  await witness.done(request);
  expect(witness.printed(request)).toBe('42\n');
  expect(witness.closed).toBeNull();
});

async function open(protocols: string[], target = `api/kernels/${kernelId}/channels`): Promise<WebSocket> {
  const url = new URL(
    `${target}?token=${TOKEN}&session_id=${randomUUID()}`,
    bridge.url.replace('http', 'ws')
  );
  const socket = new WebSocket(url, protocols);
  socket.on('error', () => undefined);
  await once(socket, 'open');
  return socket;
}

/** Sends one frame on a separate socket; returns the code with which it is closed. */
async function closedBy(frame: Buffer | string, protocols: string[]): Promise<number> {
  const socket = await open(protocols);
  const closed = once(socket, 'close') as Promise<[number]>;
  socket.send(frame);
  return (await closed)[0];
}

function u64(...numbers: (number | bigint)[]): Buffer {
  const bytes = Buffer.alloc(8 * numbers.length);
  for (const [index, value] of numbers.entries()) bytes.writeBigUInt64LE(BigInt(value), index * 8);
  return bytes;
}

/** A v1 frame of these parts, beginning with the channel. */
function v1(...parts: (string | Buffer)[]): Buffer {
  const bytes = parts.map(part => Buffer.from(part));
  const offsets = [8 * (bytes.length + 2)];
  for (const part of bytes) offsets.push((offsets.at(-1) ?? 0) + part.length);
  return Buffer.concat([u64(offsets.length, ...offsets), ...bytes]);
}

const HEADER = '{"msg_id":"1","msg_type":"kernel_info_request","session":"s","username":"","version":"5.4"}';
const deep = (count: number): string => '['.repeat(count) + ']'.repeat(count);

const MALFORMED_V1: [string, Buffer][] = [
  ['nothing', Buffer.alloc(0)],
  ['seven bytes', Buffer.alloc(7)],
  ['no offsets', u64(0)],
  ['one offset', u64(1, 16)],
  ['a huge count of offsets', u64(2n ** 63n, 1)],
  ['more offsets than bytes', u64(1000, 16)],
  ['offsets beyond the end', u64(6, 56, 1_000_000, 1_000_001, 1_000_002, 1_000_003, 1_000_004)],
  ['offsets that go back', u64(6, 56, 40, 30, 20, 10, 0)],
  ['offsets of 2^64-1', u64(6, ...Array.from({ length: 6 }, () => 2n ** 64n - 1n))],
  ['an unknown channel', v1('nowhere', HEADER, '{}', '{}', '{}')],
  ['the channel iopub', v1('iopub', HEADER, '{}', '{}', '{}')],
  ['a channel in bad UTF-8', v1(Buffer.from([0xff, 0xfe]), HEADER, '{}', '{}', '{}')],
  ['too few parts', v1('shell', HEADER)],
  ['a header that is no JSON', v1('shell', '{"msg_id"', '{}', '{}', '{}')],
  ['a header that is a list', v1('shell', '[]', '{}', '{}', '{}')],
  ['a header that is null', v1('shell', 'null', '{}', '{}', '{}')],
  ['a header of other types', v1('shell', '{"msg_id":5,"msg_type":[],"session":{}}', '{}', '{}', '{}')],
  ['a header in bad UTF-8', v1('shell', Buffer.from([0x7b, 0xff, 0x7d]), '{}', '{}', '{}')],
  ['a header of 100,000 nested lists', v1('shell', deep(100_000), '{}', '{}', '{}')]
];

describe('frames that are not v1', () => {
  it.each(MALFORMED_V1)('%s closes the socket (1007)', async (_what, frame) => {
    expect(await closedBy(frame, [V1])).toBe(1007);
  });

  it('text frames close the socket too', async () => {
    for (const text of ['', 'x', 'null', '[]', '{}', '{"channel": "shell"}', deep(100_000)]) {
      expect([text.slice(0, 20), await closedBy(text, [V1])]).toEqual([text.slice(0, 20), 1007]);
    }
  });
});

describe('frames that are not legacy', () => {
  it.each([
    ['nothing', ''],
    ['no JSON', '{'],
    ['a list', '[]'],
    ['no header', '{"channel":"shell"}'],
    [
      'an unknown channel',
      `{"channel":"x","header":${HEADER},"parent_header":{},"metadata":{},"content":{}}`
    ],
    [
      'a channel that is a number',
      `{"channel":5,"header":${HEADER},"parent_header":{},"metadata":{},"content":{}}`
    ],
    [
      'a header that is a text',
      '{"channel":"shell","header":"x","parent_header":{},"metadata":{},"content":{}}'
    ],
    ['deep JSON', deep(100_000)],
    ['a binary frame of nothing', Buffer.alloc(0)],
    ['a huge count of buffers', Buffer.from([0xff, 0xff, 0xff, 0xff])],
    ['offsets beyond the end', Buffer.from([0, 0, 0, 2, 0, 0, 0, 12, 0xff, 0xff, 0xff, 0xff])]
  ])('%s closes the socket (1007)', async (_what, frame) => {
    expect(await closedBy(frame, [])).toBe(1007);
  });
});

describe('any frame', () => {
  it.each([
    ['v1', [V1]],
    ['legacy', []]
  ])(
    'of random bytes, on a socket with %s, closes that socket and nothing else',
    async (_name, protocols) => {
      await fc.assert(
        fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async bytes => {
          expect(await closedBy(Buffer.from(bytes), protocols)).toBe(1007);
        }),
        { numRuns: 60 }
      );
    }
  );

  it('with one byte changed is refused, or passed on to the kernel, which survives it', async () => {
    const good = v1('shell', HEADER, '{}', '{}', '{}');
    await fc.assert(
      fc.asyncProperty(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
        const bytes = Buffer.from(good);
        bytes[at] = (bytes[at] ?? 0) ^ flip;
        const socket = await open([V1]);
        const closed = once(socket, 'close') as Promise<[number]>;
        socket.send(bytes);
        socket.close();
        expect([1005, 1007]).toContain((await closed)[0]);
      }),
      { numRuns: 60 }
    );
  });
});

describe('frames below WebSocket messages', () => {
  const handshake = (): string =>
    [
      `GET /api/kernels/${kernelId}/channels?token=${TOKEN} HTTP/1.1`,
      'Host: localhost',
      'Upgrade: websocket',
      'Connection: Upgrade',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      '\r\n'
    ].join('\r\n');

  it.each([
    ['an unmasked frame', [0x82, 0x01, 0x00]],
    ['a reserved bit', [0xf2, 0x81, 0, 0, 0, 0, 0]],
    ['an unknown opcode', [0x83, 0x80, 0, 0, 0, 0]],
    ['a continuation of nothing', [0x80, 0x80, 0, 0, 0, 0]],
    ['a ping of 126 bytes', [0x89, 0xfe, 0, 126, 0, 0, 0, 0]],
    ['a length of 2^63', [0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
    ['a length above the limit', [0x82, 0xff, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0]],
    ['a text of bad UTF-8', [0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe]],
    ['a close code that is none', [0x88, 0x82, 0, 0, 0, 0, 0, 1]]
  ])('%s ends the connection', async (_what, bytes) => {
    const { status } = await rawRequest(
      bridge.url,
      Buffer.concat([Buffer.from(handshake()), Buffer.from(bytes)]),
      { half: true }
    );
    expect(status).toBe(101);
  });

  it.each([
    ['another version', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Version: 99'],
    ['no key', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n', ''],
    ['a key of another length', 'dGhlIHNhbXBsZSBub25jZQ==', 'eA=='],
    ['another protocol to upgrade to', 'Upgrade: websocket', 'Upgrade: h2c'],
    [
      'subprotocols that are none',
      'Upgrade: websocket',
      'Upgrade: websocket\r\nSec-WebSocket-Protocol: a,,b;"'
    ]
  ])('a handshake with %s is refused', async (_what, from, to) => {
    const { status } = await rawRequest(bridge.url, handshake().replace(from, to), { half: true });
    expect([400, 405, 426]).toContain(status);
  });

  it.each([
    'resume=-1',
    'resume=x',
    'resume=1e9',
    `resume=${'9'.repeat(30)}`,
    `session_id=${'x'.repeat(5000)}`
  ])('an upgrade with %s is 400', async query => {
    const bytes = handshake().replace(`?token=${TOKEN}`, `?token=${TOKEN}&${query}`);
    expect((await rawRequest(bridge.url, bytes, { half: true })).status).toBe(400);
  });
});

describe('the events socket', () => {
  it('answers messages that it does not understand, and continues', async () => {
    const socket = await open([], 'bridge/v1/events');
    const answers: { op: string }[] = [];
    socket.on('message', data => answers.push(JSON.parse((data as Buffer).toString()) as { op: string }));
    const nonsense = ['', '{', '[]', '{"op":"x"}', '{"op":"subscribe","topics":["x"]}', deep(100_000)];
    for (const text of nonsense) socket.send(text);
    socket.send(Buffer.from([0xff, 0xfe]));
    socket.send('{"op":"subscribe","topics":[]}');
    await vi.waitUntil(() => answers.some(({ op }) => op === 'subscribed'), { timeout: 60_000 });
    expect(answers.filter(({ op }) => op === 'error')).toHaveLength(nonsense.length + 1);
    socket.terminate();
  });

  it('stores nothing of messages above the limit', async () => {
    for (let count = 0; count < 20; count++) {
      const socket = await open([], 'bridge/v1/events');
      const closed = once(socket, 'close') as Promise<[number]>;
      socket.send(Buffer.alloc(9 * MIB));
      expect([1006, 1009]).toContain((await closed)[0]);
    }
  });
});
