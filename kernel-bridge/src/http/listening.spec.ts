import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { App } from './app.js';
import { HTTP_LIMITS } from './http-limits.js';
import { listen } from './listening.js';
import { TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000 });

/** Whether this machine has an IPv6 loopback address. */
async function hasIpv6(): Promise<boolean> {
  const probe = createServer().listen({ host: '::1', port: 0 });
  const outcome = await Promise.race([
    once(probe, 'listening').then(() => true),
    once(probe, 'error').then(() => false)
  ]);
  probe.close();
  return outcome;
}

const ipv6 = await hasIpv6();

describe('a gateway on 127.0.0.1', () => {
  it.skipIf(!ipv6)('answers on [::1] too, by the same rules, and frees the port', async () => {
    let twin: string;
    {
      await using bridge = await TemporaryGateway.start({});
      await bridge.gateway.ready;
      twin = bridge.url.replace('127.0.0.1', '[::1]');
      expect((await fetch(new URL('api/kernels', twin))).status).toBe(403);
      const headers = { authorization: `token ${TOKEN}` };
      expect(await (await fetch(new URL('api/kernels', twin), { headers })).json()).toEqual([]);
      const socket = new WebSocket(new URL('bridge/v1/events', twin.replace('http', 'ws')), { headers });
      await once(socket, 'open');
      socket.close();
    }
    await expect(fetch(twin)).rejects.toThrow();
  });

  it.skipIf(!ipv6)('takes another free port when the first is taken on 127.0.0.1', async () => {
    const server = createHttpServer((_, response) => response.end('here'));
    const ports: number[] = [];
    const app = {
      server,
      ready: () => Promise.resolve(),
      listen: async ({ port }: { port: number }) => {
        ports.push(port);
        if (ports.length === 1) throw Object.assign(new Error('taken'), { code: 'EADDRINUSE' });
        server.listen({ host: '127.0.0.1', port });
        await once(server, 'listening');
      }
    } as unknown as App;
    const { url, close } = await listen(app, '127.0.0.1', 0, HTTP_LIMITS);
    // Usually the second port; a connection of another process may occupy that one too.
    const [taken, ...others] = ports;
    const port = others.at(-1);
    expect(port).not.toBe(taken);
    expect(url).toBe(`http://127.0.0.1:${port}/`);
    for (const host of ['127.0.0.1', '[::1]'])
      expect(await (await fetch(`http://${host}:${port}/`)).text()).toBe('here');
    await close();
    await expect(fetch(`http://[::1]:${port}/`)).rejects.toThrow();
    server.closeAllConnections();
    server.close();
  });

  it.skipIf(!ipv6)(
    'does not start when another has its port on [::1], where a page could find it',
    async () => {
      const other = createServer().listen({ host: '::1', port: 0 });
      await once(other, 'listening');
      const address = other.address();
      const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
      try {
        await expect(TemporaryGateway.start({ port })).rejects.toMatchObject({ code: 'address_in_use' });
      } finally {
        other.close();
      }
    }
  );
});
