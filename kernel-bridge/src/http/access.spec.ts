import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { RunningGateway } from '../cli/running-gateway.js';
import { WebSocket } from 'ws';
import { localKeepers } from '../keeper-client/access.js';
import { PUBLIC_PAGES } from './access-hooks.js';
import { IDENTITY } from './gateway-proof.js';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const PAGE = 'http://127.0.0.1:8888';
const bridge = gatewayForAll({ allowedOrigins: [PAGE] });

/** A path with a value in place of each parameter. */
function concrete(pattern: string): string {
  return pattern.replace(/:\w+/g, 'x').replace('*', 'x');
}

/** The HTTP status of a refused upgrade, or 101. */
async function upgrade(
  target: string,
  headers: Record<string, string> = {},
  { url } = bridge
): Promise<number> {
  const socket = new WebSocket(new URL(target, url.replace('http', 'ws')), { headers });
  const opened = once(socket, 'open').then(() => 101);
  const refused = once(socket, 'unexpected-response').then(
    ([, response]) => (response as { statusCode: number }).statusCode
  );
  socket.on('error', () => undefined);
  const status = await Promise.race([opened, refused]);
  socket.terminate();
  return status;
}

describe('without a token', () => {
  // A separate gateway: after so many refusals, it would answer other tests with 429.
  const bridge = gatewayForAll({ allowedOrigins: [PAGE] });

  it('every registered route refuses, whatever the method', async () => {
    expect(bridge.gateway.routes.length).toBeGreaterThan(20);
    for (const { method, url } of bridge.gateway.routes) {
      // This route states which gateway this is, so that no client sends a token to another program
      // (`gateway-proof.spec.ts`).
      if (method === 'GET' && url === IDENTITY) continue;
      // These pages contain no secret (`files-routes.spec.ts`, `docs-routes.spec.ts`).
      if (/^(GET|HEAD)$/.test(method) && PUBLIC_PAGES.test(url)) continue;
      for (const token of [null, 'wrong']) {
        const answer = await bridge.rest(method, concrete(url), { token });
        expect([method, url, answer.status]).toEqual([method, url, 403]);
        if (method !== 'HEAD') expect(answer.body).toMatchObject({ code: 'unauthorized' });
      }
    }
  });

  it('every registered upgrade refuses', async () => {
    expect(bridge.gateway.upgrades.routes.length).toBeGreaterThanOrEqual(2);
    expect(bridge.gateway.upgrades.relays.map(({ path }) => path)).toEqual(['/machines/:name/*']);
    for (const { path } of [...bridge.gateway.upgrades.routes, ...bridge.gateway.upgrades.relays]) {
      expect([path, await upgrade(concrete(path), {}, bridge)]).toEqual([path, 403]);
      expect([path, await upgrade(`${concrete(path)}?token=wrong`, {}, bridge)]).toEqual([path, 403]);
      expect([path, await upgrade(concrete(path), { authorization: 'token wrong' }, bridge)]).toEqual([
        path,
        403
      ]);
    }
  });

  it.each(['/', '/nowhere', '/api/contents', '/api/kernels/%zz', '//', '/api/kernels/../..'])(
    'a path that does not exist (%s) looks like one that does',
    async target => expect((await bridge.rest('GET', target, { token: null })).status).toBe(403)
  );

  it('a cookie does not count as a token', async () => {
    const headers = { cookie: `token=${TOKEN}; _xsrf=${TOKEN}; username-127-0-0-1=${TOKEN}` };
    expect((await bridge.rest('GET', '/api', { token: null, headers })).status).toBe(403);
  });

  it('a token in the query does not count for REST, which can send a header', async () => {
    expect((await bridge.rest('GET', `/api?token=${TOKEN}`, { token: null })).status).toBe(403);
    expect((await bridge.rest('POST', `/api/kernels?token=${TOKEN}`, { token: null })).status).toBe(403);
  });

  it('no body is read: a refused request cannot change anything', async () => {
    const answer = await bridge.rest('POST', '/api/kernels', { token: null, text: '{"name": ' });
    expect(answer.body).toMatchObject({ code: 'unauthorized' });
    expect(bridge.gateway.registry.list()).toEqual([]);
  });
});

describe('XSRF', () => {
  it.each([
    ['none', {}],
    ['a wrong one', { 'x-xsrftoken': 'wrong', cookie: '_xsrf=other' }],
    ['one as a form would send it', { 'content-type': 'application/x-www-form-urlencoded' }]
  ])('does not matter for a client with a token in a header: %s', async (_what, headers) => {
    const answer = await bridge.rest('POST', '/api/kernels', { body: { name: 'no-such-kernel' }, headers });
    expect(answer.status).toBe(501);
  });

  it('requests that another site can make a browser send are refused: cookies, forms, a token in the query', async () => {
    for (const origin of ['http://evil.example', 'null', undefined]) {
      const answer = await bridge.rest('POST', `/api/kernels?token=${TOKEN}&_xsrf=x`, {
        token: null,
        text: 'name=python3',
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          cookie: `_xsrf=x; token=${TOKEN}`,
          'sec-fetch-mode': 'navigate',
          ...(origin === undefined ? {} : { origin })
        }
      });
      expect(answer.status).toBe(403);
    }
    expect(bridge.gateway.registry.list()).toEqual([]);
  });
});

describe('with a token', () => {
  it('[6] a path that the bridge does not serve is a clean 404 in JSON', async () => {
    for (const target of [
      '/api/contents',
      '/api/contents/a.ipynb?content=1',
      '/api/terminals',
      '/lab',
      '/api/colab/x'
    ]) {
      const answer = await bridge.rest('GET', target);
      expect([target, answer.status]).toEqual([target, 404]);
      expect(answer.body).toMatchObject({ code: 'route_not_found', reason: 'Not Found' });
    }
    expect((await bridge.rest('PUT', '/api/contents/a.ipynb', { body: {} })).status).toBe(404);
  });

  it('a WebSocket route says so to a plain request', async () => {
    const answer = await bridge.rest('GET', '/bridge/v1/events');
    expect(answer).toMatchObject({ status: 426, body: { code: 'upgrade_required' } });
  });

  it('an upgrade of an unknown path or of an unknown kernel is 404', async () => {
    expect(await upgrade(`/nowhere?token=${TOKEN}`)).toBe(404);
    expect(await upgrade(`/api/kernels/x/channels?token=${TOKEN}`)).toBe(404);
    expect(await upgrade(`/bridge/v1/events?token=${TOKEN}`)).toBe(101);
    expect(await upgrade('/bridge/v1/events', { authorization: `Bearer ${TOKEN}` })).toBe(101);
  });
});

describe('Host', () => {
  it('a host name that was rebound to this machine is refused, even with a valid token', async () => {
    const { hostname, port } = new URL(bridge.url);
    const socket = connect(Number(port), hostname);
    socket.end(
      `GET /api HTTP/1.1\r\nHost: evil.example:${port}\r\nAuthorization: token ${TOKEN}\r\nConnection: close\r\n\r\n`
    );
    let text = '';
    for await (const chunk of socket.setEncoding('utf8')) text += String(chunk);
    expect(text).toMatch(/^HTTP\/1\.1 403 /);
    expect(text).toContain('"code":"host_refused"');
  });

  it('is checked at upgrades', async () => {
    expect(await upgrade(`/bridge/v1/events?token=${TOKEN}`, { host: 'evil.example' })).toBe(403);
  });
});

describe('Origin', () => {
  const foreignOrigin = { origin: 'http://127.0.0.1:8889' };

  it('a page that is not allowed is refused, for REST and for upgrades', async () => {
    const answer = await bridge.rest('GET', '/api', { headers: foreignOrigin });
    expect(answer).toMatchObject({ status: 403, body: { code: 'origin_refused' } });
    // The one flag that would allow the page, ready to copy.
    expect(answer.body).toMatchObject({
      message: expect.stringContaining('with --allow-origin http://127.0.0.1:8889 to') as string
    });
    expect(answer.headers.get('access-control-allow-origin')).toBeNull();
    expect(await upgrade(`/bridge/v1/events?token=${TOKEN}`, foreignOrigin)).toBe(403);
  });

  it.each([
    ['a successful answer', '/api', TOKEN, 200],
    ['a refusal', '/api', 'wrong', 403],
    ['a missing route', '/api/contents', TOKEN, 404],
    ['a bad URL', '/api/kernels/%zz', TOKEN, 400],
    ['a bad request', '/api/me?permissions=x', TOKEN, 400]
  ])('an allowed page can read %s', async (_what, target, token, status) => {
    const answer = await bridge.rest('GET', target, { token, headers: { origin: PAGE } });
    expect(answer.status).toBe(status);
    expect(answer.headers.get('access-control-allow-origin')).toBe(PAGE);
    expect(answer.headers.get('vary')).toContain('Origin');
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.get('set-cookie')).toBeNull();
  });

  it('a preflight is answered without a token, once for ten minutes', async () => {
    const headers = {
      origin: PAGE,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type,x-xsrftoken'
    };
    const answer = await bridge.rest('OPTIONS', '/api/kernels', { token: null, headers });
    expect(answer.status).toBe(204);
    expect(answer.headers.get('access-control-allow-origin')).toBe(PAGE);
    expect(answer.headers.get('access-control-allow-headers')).toBe(
      'authorization, content-type, if-match, if-none-match, x-xsrftoken'
    );
    expect(answer.headers.get('access-control-max-age')).toBe('600');
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull();
  });

  it('a preflight of another page is refused', async () => {
    const headers = { ...foreignOrigin, 'access-control-request-method': 'POST' };
    const answer = await bridge.rest('OPTIONS', '/api/kernels', { token: null, headers });
    expect(answer.status).toBe(403);
  });
});

describe('before the kernels are found again', () => {
  it('[7] everything but health is 503, and never an empty list', async () => {
    const first = await TemporaryGateway.start();
    await first.gateway.ready;
    const kernelId = await first.startKernel();
    await first.gateway[Symbol.asyncDispose]();
    let proceed = (): void => undefined;
    const gate = new Promise<void>(resolve => (proceed = resolve));
    const keepers = localKeepers();
    const slow = {
      ...keepers,
      attach: async (...args: Parameters<typeof keepers.attach>) => {
        await gate;
        return keepers.attach(...args);
      }
    };
    const second = await TemporaryGateway.start({ stateDir: first.folder, keepers: slow });
    try {
      for (const target of [
        '/api/kernels',
        '/api/sessions',
        `/api/kernels/${kernelId}`,
        '/api/kernelspecs'
      ]) {
        expect(await second.rest('GET', target)).toMatchObject({ status: 503, body: { code: 'not_ready' } });
      }
      expect(await second.rest('GET', '/bridge/v1/health')).toMatchObject({
        status: 200,
        body: { status: 'starting' }
      });
      expect((await second.rest('GET', '/api/kernels', { token: null })).status).toBe(403);
      const running = await RunningGateway.find(second.folder);
      const listed = running.kernels();
      expect((await second.rest('GET', '/api/kernels')).status).toBe(503);
      proceed();
      await second.gateway.ready;
      // The command line retries until it gets an answer.
      expect(await listed).toMatchObject([{ id: kernelId }]);
      expect(await second.rest('GET', '/api/kernels')).toMatchObject({
        status: 200,
        body: [{ id: kernelId }]
      });
      expect(await second.rest('GET', '/bridge/v1/health')).toMatchObject({
        body: { status: 'ok', kernels: 1 }
      });
    } finally {
      proceed();
      await second[Symbol.asyncDispose]();
    }
  });
});
