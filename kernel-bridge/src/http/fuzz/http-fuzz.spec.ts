/**
 * Malformed and hostile requests against a live gateway with a running kernel: each gets a clear error or the end of its
 * connection, and afterwards the kernel has the same state, answers, and nothing else was created.
 */
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { ChannelsClient } from '../../testing/channels-client.js';
import { rawRequest } from '../../testing/raw-request.js';
import { gatewayForAll } from '../../testing/shared-gateway.js';
import { TOKEN } from '../../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

const MIB = 1024 * 1024;
const bridge = gatewayForAll({
  http: { headersTimeoutMs: 10_000, requestTimeoutMs: 20_000 }
});
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
  expect(bridge.gateway.registry.list().map(({ id }) => id)).toEqual([kernelId]);
  expect((await bridge.rest('GET', '/api/sessions')).body).toEqual([]);
});

const auth = `Host: localhost\r\nAuthorization: token ${TOKEN}\r\n`;
const POSTS = ['/api/kernels', '/api/sessions'];
/** Names that no kernelspec has, so that no generated request can start a kernel. */
const CHANGES = [
  ['POST', '/api/kernels'],
  ['POST', '/api/sessions'],
  ['PATCH', '/api/sessions/x'],
  ['DELETE', '/api/kernels/x'],
  ['POST', '/api/kernels/x/restart']
] as const;

describe('bytes that are not HTTP', () => {
  it.each([
    ['nothing at all', ''],
    ['a line break', '\r\n\r\n'],
    ['TLS', Buffer.from('16030100a5010000a10303', 'hex')],
    ['an unknown method', `BREW /api HTTP/1.1\r\n${auth}\r\n`],
    ['a version that does not exist', `GET /api HTTP/9.9\r\n${auth}\r\n`],
    ['no version', 'GET /api\r\n\r\n'],
    ['a header without a colon', `GET /api HTTP/1.1\r\nHost localhost\r\n\r\n`],
    ['a header with a control character', `GET /api HTTP/1.1\r\n${auth}X: \u0001\u0000\r\n\r\n`],
    ['two lengths', `POST /api/kernels HTTP/1.1\r\n${auth}Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}`],
    [
      'a length and chunks',
      `POST /api/kernels HTTP/1.1\r\n${auth}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`
    ],
    ['a negative length', `POST /api/kernels HTTP/1.1\r\n${auth}Content-Length: -1\r\n\r\n`],
    [
      'a length beyond all numbers',
      `POST /api/kernels HTTP/1.1\r\n${auth}Content-Length: 99999999999999999999\r\n\r\n`
    ],
    [
      'a chunk size that is none',
      `POST /api/kernels HTTP/1.1\r\n${auth}Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n`
    ],
    [
      'a chunk size beyond all numbers',
      `POST /api/kernels HTTP/1.1\r\n${auth}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n\r\n`
    ],
    ['ten thousand headers', `GET /api HTTP/1.1\r\n${auth}${'a: b\r\n'.repeat(10_000)}\r\n`],
    ['a giant header', `GET /api HTTP/1.1\r\n${auth}X: ${'x'.repeat(MIB)}\r\n\r\n`]
  ])('%s ends the connection, with an error or without an answer', async (_what, bytes) => {
    const { status } = await rawRequest(bridge.url, bytes, { half: true });
    expect(status === 0 || (status >= 400 && status < 500)).toBe(true);
  });

  it('any bytes do so', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 2000 }), async bytes => {
        const { status } = await rawRequest(bridge.url, Buffer.from(bytes), { half: true });
        expect(status === 0 || (status >= 400 && status < 500)).toBe(true);
      }),
      { numRuns: 100 }
    );
  });
});

describe('requests that are only valid HTTP', () => {
  it('any path is answered with a documented status', async () => {
    const segment = fc.oneof(
      fc.constantFrom(
        'api',
        'kernels',
        'sessions',
        'bridge',
        'v1',
        '..',
        '.',
        '%2e%2e',
        '%00',
        '%ff',
        '%',
        '',
        kernelId
      ),
      fc.string({ maxLength: 20 }).map(encodeURIComponent),
      fc.string({ minLength: 200, maxLength: 2000 }).map(text => encodeURIComponent(text).slice(0, 3000))
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(segment, { maxLength: 6 }),
        fc.string({ maxLength: 50 }),
        async (parts, query) => {
          const target = `/${parts.join('/')}?${encodeURIComponent(query)}`;
          const { status } = await rawRequest(
            bridge.url,
            `GET ${target} HTTP/1.1\r\n${auth}Connection: close\r\n\r\n`
          );
          expect([200, 400, 404, 426]).toContain(status);
        }
      ),
      { numRuns: 150 }
    );
  });

  it('any JSON as a body is refused or does nothing', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...CHANGES),
        fc.json({ maxDepth: 4 }),
        async ([method, target], text) => {
          // Null and {} mean the default kernel, which other specs start.
          fc.pre(
            method !== 'POST' ||
              target !== '/api/kernels' ||
              !['null', '{}'].includes(text.replace(/\s/g, ''))
          );
          const body = text.startsWith('{')
            ? `{"name":"no-such-kernel","kernel":{"name":"no-such-kernel"},${text.slice(1)}`
            : text;
          const { status } = await bridge.rest(method, target, { text: body.replace(/,\}$/, '}') });
          expect(status).toBeGreaterThanOrEqual(400);
          expect(status === 501 || status < 500).toBe(true);
        }
      ),
      { numRuns: 150 }
    );
  });

  it.each(POSTS)('%s with a wrong type in any field is 400', async target => {
    const fields = ['name', 'path', 'type', 'kernel', 'kernel_id', 'env', 'notebook'];
    for (const field of fields) {
      for (const value of [5, true, [], ['x'], { name: 5 }, { id: [] }, -1e308]) {
        const { status } = await bridge.rest('POST', target, {
          body: {
            name: 'no-such-kernel',
            path: 'x',
            type: 'y',
            kernel: { name: 'no-such-kernel' },
            [field]: value
          }
        });
        expect([field, value, status >= 400 && (status < 500 || status === 501)]).toEqual([
          field,
          value,
          true
        ]);
      }
    }
  });

  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty'])(
    'the name %s is as unknown as any other',
    async name => {
      expect((await bridge.rest('POST', '/api/kernels', { body: { name } })).status).toBe(501);
      for (const target of [`/api/kernels/${name}`, `/api/sessions/${name}`, `/api/kernelspecs/${name}`]) {
        expect((await bridge.rest('GET', target)).status).toBe(404);
      }
    }
  );

  it.each([
    ['lists', '['],
    ['objects', '{"a":']
  ])('JSON of 100,000 nested %s is refused', async (_what, open) => {
    const close = open === '[' ? ']' : '}';
    const deep = `${open.repeat(100_000)}1${close.repeat(100_000)}`;
    for (const target of POSTS) {
      // Unknown fields are ignored, however deep; known ones are not nested.
      const unknown = `{"name": "no-such-kernel", "path": "x", "type": "x", "kernel": {"name": "no-such-kernel"}, "x": ${deep}}`;
      expect((await bridge.rest('POST', target, { text: unknown })).status).toBe(501);
      const known = await bridge.rest('POST', target, { text: `{"env": ${deep}, "path": "x"}` });
      expect(known.status).toBe(400);
    }
  });

  it.each([
    ['invalid UTF-8', Buffer.from('{"name": "\xff\xfe"}', 'latin1')],
    ['UTF-16', Buffer.from('{"name": "x"}', 'utf16le')],
    ['a zero byte', Buffer.from('{"name": "x\u0000"}')],
    [
      'half a surrogate',
      Buffer.from('{"name": "\\ud800", "path": "\\ud800", "type": "x", "kernel": {"name": "\\ud800"}}')
    ]
  ])('a body with %s is refused', async (_what, body) => {
    for (const target of POSTS) {
      const head = `POST ${target} HTTP/1.1\r\n${auth}Connection: close\r\nContent-Length: ${body.length}\r\n\r\n`;
      const { status } = await rawRequest(bridge.url, Buffer.concat([Buffer.from(head), body]));
      expect([400, 501]).toContain(status);
    }
  });

  it.each([
    'from=0',
    'from=-1',
    'from=99999999999999999999999',
    'limit=0',
    'limit=999999999',
    'from=x',
    'from=1&from=2'
  ])('a range of the journal with %s is 400', async query => {
    expect((await bridge.rest('GET', `/bridge/v1/kernels/${kernelId}/journal?${query}`)).status).toBe(400);
  });

  it('a range beyond the end of the journal is empty', async () => {
    const { status, body } = await bridge.rest(
      'GET',
      `/bridge/v1/kernels/${kernelId}/journal?from=${Number.MAX_SAFE_INTEGER}`
    );
    expect([status, (body as { entries: unknown[] }).entries]).toEqual([200, []]);
  });

  it('bodies above the limit are not buffered in memory', async () => {
    const head = `POST /api/kernels HTTP/1.1\r\n${auth}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const chunk = `100000\r\n${' '.repeat(MIB)}\r\n`;
    // Created once: buffers that this end creates each time would count too until they are collected.
    const request = Buffer.from(head + chunk.repeat(6));
    global.gc?.();
    const before = process.memoryUsage().rss;
    for (let count = 0; count < 50; count++) {
      const { status } = await rawRequest(bridge.url, request);
      expect([0, 413]).toContain(status);
    }
    // 300 MiB were sent, and this process runs both ends.
    expect(process.memoryUsage().rss - before).toBeLessThan(150 * MIB);
  });
});
