/**
 * Colab's "connect to a local runtime", as far as its page's requests are known: `fetch` in credentials mode from a public
 * origin, with a private-network preflight, and the token in the query of the pasted URL.
 */
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const COLAB = 'https://colab.research.google.com';
const PAGE = {
  origin: COLAB,
  referer: `${COLAB}/`,
  'sec-fetch-site': 'cross-site',
  'sec-fetch-mode': 'cors',
  cookie: '_xsrf=2|abc; username-localhost-8888=whatever'
};
let bridge: TemporaryGateway;
let strict: TemporaryGateway;

beforeAll(async () => {
  bridge = await TemporaryGateway.start({ allowedOrigins: [COLAB], allowCredentials: true });
  strict = await TemporaryGateway.start({ allowedOrigins: [COLAB] });
  await Promise.all([bridge.gateway.ready, strict.gateway.ready]);
});

afterAll(async () => {
  await bridge[Symbol.asyncDispose]();
  await strict[Symbol.asyncDispose]();
});

describe('[23] a local runtime of Colab', () => {
  it('preflights without a token, for a private network, and may send credentials', async () => {
    const answer = await bridge.rest('OPTIONS', '/api/sessions', {
      token: null,
      headers: {
        ...PAGE,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type,x-xsrftoken',
        'access-control-request-private-network': 'true'
      }
    });
    expect(answer.status).toBe(204);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'access-control-allow-origin': COLAB,
      'access-control-allow-credentials': 'true',
      'access-control-allow-private-network': 'true',
      'access-control-max-age': '600'
    });
    expect(answer.headers.get('access-control-allow-methods')).toContain('POST');
  });

  it('sends the token of the pasted URL in the query, and can read every answer', async () => {
    for (const [method, target, status] of [
      ['GET', '/', 200],
      ['GET', '/api', 200],
      ['GET', '/api/kernelspecs', 200],
      ['GET', '/api/sessions', 200],
      ['GET', '/api/colab/anything', 404],
      ['GET', '/api/contents', 404]
    ] as const) {
      const answer = await bridge.rest(method, `${target}?token=${TOKEN}`, { token: null, headers: PAGE });
      expect([target, answer.status]).toEqual([target, status]);
      expect(answer.headers.get('access-control-allow-origin')).toBe(COLAB);
      expect(answer.headers.get('access-control-allow-credentials')).toBe('true');
      expect(answer.headers.get('set-cookie')).toBeNull();
    }
  });

  it('creates a session and reaches its kernel', async () => {
    const made = await bridge.rest('POST', `/api/sessions?token=${TOKEN}`, {
      token: null,
      headers: { ...PAGE, 'content-type': 'text/plain;charset=UTF-8' },
      body: { path: 'fileId=1', type: 'notebook', kernel: { name: 'python3' } }
    });
    expect(made.status).toBe(201);
    const { kernel } = made.body as { kernel: { id: string } };
    const target = new URL(
      `api/kernels/${kernel.id}/channels?token=${TOKEN}`,
      bridge.url.replace('http', 'ws')
    );
    const socket = new WebSocket(target, { headers: { origin: COLAB, cookie: PAGE.cookie } });
    await once(socket, 'open');
    socket.terminate();
  });

  it('a wrong token is refused in a way that the page can read, and no cookie replaces it', async () => {
    const headers = { ...PAGE, cookie: `token=${TOKEN}` };
    const answer = await bridge.rest('GET', '/api/sessions?token=wrong', { token: null, headers });
    expect(answer).toMatchObject({ status: 403, body: { code: 'unauthorized' } });
    expect(answer.headers.get('access-control-allow-origin')).toBe(COLAB);
  });

  it('other origins get none of this', async () => {
    for (const origin of ['https://colab.research.google.com.evil.example', 'https://evil.example', 'null']) {
      const headers = { ...PAGE, origin };
      const answer = await bridge.rest('GET', `/api?token=${TOKEN}`, { token: null, headers });
      expect([origin, answer.status]).toEqual([origin, 403]);
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull();
    }
    // This includes the gateway's own origin: its pages can send headers.
    const own = { ...PAGE, origin: new URL(bridge.url).origin };
    expect((await bridge.rest('GET', `/api?token=${TOKEN}`, { token: null, headers: own })).status).toBe(403);
  });

  it('without allow_credentials a token in the query is refused, and credentials mode is not allowed', async () => {
    const answer = await strict.rest('GET', `/api?token=${TOKEN}`, { token: null, headers: PAGE });
    expect(answer.status).toBe(403);
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull();
  });
});
