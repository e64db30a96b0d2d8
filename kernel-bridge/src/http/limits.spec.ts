import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { rawRequest } from '../testing/raw-request.js';
import { TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const PAGE = 'http://127.0.0.1:8888';
const MAX_SOCKETS = 3;
let bridge: TemporaryGateway;
/** A gateway with short timeouts, for requests that time out. Other requests could also time out here if the machine stalls. */
let impatient: TemporaryGateway;

beforeAll(async () => {
  bridge = await TemporaryGateway.start({
    allowedOrigins: [PAGE],
    attempts: { perWindow: 10 },
    maxSockets: MAX_SOCKETS,
    maxPayloadBytes: 1024
  });
  impatient = await TemporaryGateway.start({
    allowedOrigins: [PAGE],
    http: { headersTimeoutMs: 1_000, requestTimeoutMs: 2_000 }
  });
  await Promise.all([bridge.gateway.ready, impatient.gateway.ready]);
});

afterAll(async () => {
  await bridge[Symbol.asyncDispose]();
  await impatient[Symbol.asyncDispose]();
});

const events = (): URL => new URL(`bridge/v1/events?token=${TOKEN}`, bridge.url.replace('http', 'ws'));

describe('limits', () => {
  it('connections without a token lock nobody out, however many there are', async () => {
    const { port } = new URL(bridge.url);
    const strangers = Array.from({ length: 600 }, () => connect(Number(port), '127.0.0.1'));
    let ended = 0;
    for (const socket of strangers) socket.on('error', () => undefined).on('close', () => ended++);
    await Promise.all(strangers.map(socket => once(socket, 'connect').catch(() => null)));
    await vi.waitFor(() => expect(ended).toBeGreaterThanOrEqual(600 - 512), 60_000);
    expect((await bridge.rest('GET', '/api/kernels')).status).toBe(200);
    expect(ended).toBeLessThan(600);
    for (const socket of strangers) socket.destroy();
  });

  it('headers that are too large are 431, and the connection ends', async () => {
    const { status, text } = await rawRequest(
      bridge.url,
      `GET /api HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`
    );
    expect(status).toBe(431);
    expect(text).toContain('"code":"headers_too_large"');
  });

  it('a URL that is too long is 431', async () => {
    const { status } = await rawRequest(
      bridge.url,
      `GET /${'x'.repeat(20_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`
    );
    expect(status).toBe(431);
  });

  it('a request whose headers or body never end is 408', async () => {
    const slow = await rawRequest(impatient.url, 'GET /api HTTP/1.1\r\nHost: localhost\r\n');
    expect(slow.status).toBe(408);
    expect(slow.text).toContain('"code":"request_timeout"');
    const half = await rawRequest(
      impatient.url,
      `POST /api/kernels HTTP/1.1\r\nHost: localhost\r\nAuthorization: token ${TOKEN}\r\nContent-Length: 100\r\n\r\n{`
    );
    expect(half.status).toBe(408);
  });

  // The router would end the path there, but the access rules would not.
  it('refuses a path with a "#", whoever sends it', async () => {
    const requested = await rawRequest(
      bridge.url,
      `GET /api/kernels#1 HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nAuthorization: token ${TOKEN}\r\n\r\n`
    );
    expect(requested.status).toBe(400);
    expect(requested.text).toContain('write %23');
  });

  it('an answer to a request that the parser refuses can be read by pages of the requesting origin, if known, and by no other', async () => {
    const port = new URL(bridge.url).port;
    const refused = (lines: string, from = PAGE, host = `127.0.0.1:${port}`): string =>
      `GET /api HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${from}\r\n${lines}\r\n\r\n`;
    const tooLarge = `X: ${'x'.repeat(20_000)}`;
    const allowed = `access-control-allow-origin: ${PAGE}\r\n`;
    const overflow = await rawRequest(bridge.url, refused(tooLarge));
    expect(overflow.status).toBe(431);
    expect(overflow.text).toContain(allowed);
    const malformed = await rawRequest(bridge.url, refused('Content-Length: many'));
    expect(malformed.status).toBe(400);
    expect(malformed.text).toContain(allowed);
    // If this process stalled before it read the headers, no origin is known: the next request counts.
    await vi.waitFor(async () => {
      const half = await rawRequest(
        impatient.url,
        `POST /api/kernels HTTP/1.1\r\nHost: localhost\r\nOrigin: ${PAGE}\r\nAuthorization: token ${TOKEN}\r\nContent-Length: 100\r\n\r\n{`
      );
      expect(half.status).toBe(408);
      expect(half.text).toContain(allowed);
    }, 60_000);
    for (const request of [
      refused(tooLarge, 'http://elsewhere.example'),
      refused(tooLarge, `${PAGE}\r\nOrigin: ${PAGE}`),
      refused(tooLarge, 'http://rebound.example', 'rebound.example')
    ]) {
      const { status, text } = await rawRequest(bridge.url, request);
      expect(status).toBe(431);
      expect(text).toContain('vary: Origin\r\n');
      expect(text).not.toContain('access-control-');
    }
  });

  it('requests without a valid token are 429 after a while; a valid token is still accepted', async () => {
    const headers = { origin: PAGE };
    const statuses: number[] = [];
    for (let count = 0; count < 15; count++) {
      statuses.push((await bridge.rest('GET', '/api', { token: `wrong-${count}` })).status);
    }
    expect(new Set(statuses)).toEqual(new Set([403, 429]));
    const limited = await bridge.rest('GET', '/api', { token: null, headers });
    expect(limited).toMatchObject({ status: 429, body: { code: 'too_many_attempts' } });
    expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(limited.headers.get('access-control-allow-origin')).toBe(PAGE);
    expect((await bridge.rest('GET', '/api')).status).toBe(200);
  });

  it('a WebSocket above the limit is 503, and there is room again when one has closed', async () => {
    const open = await Promise.all(
      Array.from({ length: MAX_SOCKETS }, async () => {
        const socket = new WebSocket(events());
        await once(socket, 'open');
        return socket;
      })
    );
    const refused = new WebSocket(events());
    refused.on('error', () => undefined);
    const [, response] = (await once(refused, 'unexpected-response')) as [unknown, { statusCode: number }];
    expect(response.statusCode).toBe(503);
    refused.terminate();
    open[0]?.close();
    await vi.waitFor(
      async () => {
        const again = new WebSocket(events());
        again.on('error', () => undefined);
        await once(again, 'open');
        open.push(again);
      },
      { timeout: 60_000 }
    );
    for (const socket of open) socket.terminate();
  });

  it('a WebSocket message that is too large closes its socket (1009)', async () => {
    const connect = async (): Promise<WebSocket> => {
      const socket = new WebSocket(events());
      await once(socket, 'open');
      return socket;
    };
    const socket = await vi.waitFor(connect, { timeout: 60_000 });
    socket.send('x'.repeat(2000));
    const [code] = (await once(socket, 'close')) as [number];
    expect(code).toBe(1009);
  });
});
