import { once } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { BaseUrl } from './base-url.js';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

describe('BaseUrl', () => {
  it.each([
    ['', '/'],
    ['/', '/'],
    ['bridge', '/bridge/'],
    ['/user/me/', '/user/me/'],
    ['//twice//', '/twice/']
  ])('%j is normalised to %j', (given, path) => expect(new BaseUrl(given).path).toBe(path));

  it.each(['/a b/', '/a?b', '/a#b', '/%41/', '/a/../b', '/a//b/', '/./'])('%j is refused', given => {
    expect(() => new BaseUrl(given)).toThrow(/is not a base URL/);
  });

  it('removes the prefix and adds it', () => {
    const base = new BaseUrl('/x/y/');
    expect(base.inner('/x/y/api/kernels?1')).toBe('/api/kernels?1');
    expect(base.inner('/x/y?token=1')).toBe('/?token=1');
    expect(base.full('/api')).toBe('/x/y/api');
  });

  it.each(['/api', '/x/yy/api', '/x', '/X/y/api', 'http://a/x/y/api', '*'])('%s is outside', target => {
    expect(new BaseUrl('/x/y/').inner(target)).not.toMatch(/^\//);
  });
});

describe('a gateway under /some/where/', () => {
  const bridge = gatewayForAll({ baseUrl: '/some/where' });

  /** Status of a request whose path is sent without the prefix. */
  async function bare(target: string): Promise<number> {
    const headers = { authorization: `token ${TOKEN}` };
    return (await fetch(new URL(target, bridge.url), { headers })).status;
  }

  it('has the prefix in its URL', () => expect(new URL(bridge.url).pathname).toBe('/some/where/'));

  it('serves every route there, and none anywhere else', async () => {
    for (const { method, url } of bridge.gateway.routes) {
      if (method !== 'GET') continue;
      const target = url.replace(/:\w+/g, 'x');
      const answer = await bridge.rest('GET', target);
      expect([url, (answer.body as { code?: string } | null)?.code]).not.toEqual([url, 'route_not_found']);
      expect([url, await bare(target)]).toEqual([url, 404]);
    }
  });

  it('refuses without a token on both sides of the prefix', async () => {
    for (const target of ['/some/where/api', '/api', '/some/where', '/elsewhere']) {
      expect((await fetch(new URL(target, bridge.url))).status).toBe(403);
    }
  });

  it('upgrades there, and nowhere else', async () => {
    const status = async (target: string): Promise<number> => {
      const url = new URL(`${target}?token=${TOKEN}`, bridge.url.replace('http', 'ws'));
      const socket = new WebSocket(url);
      const opened = once(socket, 'open').then(() => 101);
      const refused = once(socket, 'unexpected-response').then(
        ([, response]) => (response as { statusCode: number }).statusCode
      );
      socket.on('error', () => undefined);
      const outcome = await Promise.race([opened, refused]);
      socket.terminate();
      return outcome;
    };
    expect(await status('/some/where/bridge/v1/events')).toBe(101);
    expect(await status('/bridge/v1/events')).toBe(404);
  });

  it('puts the prefix into Location, logos and the description', async () => {
    const made = await bridge.rest('POST', '/api/kernels', { body: { name: 'python3' } });
    const { id } = made.body as { id: string };
    expect(made.headers.get('location')).toBe(`/some/where/api/kernels/${id}`);
    using client = await bridge.connect(id);
    await client.run('1');
    const session = await bridge.rest('POST', '/api/sessions', {
      body: { path: 'a', type: 'console', kernel: { id } }
    });
    expect(session.headers.get('location')).toMatch(/^\/some\/where\/api\/sessions\/[0-9a-f-]{36}$/);
    const { body } = await bridge.rest('GET', '/api/kernelspecs/python3');
    const logo = (body as { resources: Record<string, string> }).resources['logo-svg'] ?? '';
    expect(logo).toBe('/some/where/kernelspecs/python3/logo-svg.svg');
    expect(await bare(logo)).toBe(200);
    expect((await bridge.rest('GET', '/bridge/v1/openapi.json')).body).toMatchObject({
      servers: [{ url: '/some/where/' }]
    });
  });
});
