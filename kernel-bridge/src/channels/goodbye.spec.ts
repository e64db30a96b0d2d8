import { once } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();

describe('a client that has begun its closing handshake', () => {
  it('[12] no longer counts, although it stops reading and its connection lingers', async () => {
    const id = await bridge.startKernel();
    const connections = async (): Promise<unknown> =>
      ((await bridge.rest('GET', `/api/kernels/${id}`)).body as { connections: number }).connections;
    const { url, token } = bridge.gateway;
    const address = new URL(`api/kernels/${id}/channels?token=${token}`, url.endsWith('/') ? url : `${url}/`);
    address.protocol = 'ws:';
    const socket = new WebSocket(address);
    await once(socket, 'open');
    expect(await connections()).toBe(1);
    socket.pause();
    socket.close();
    await vi.waitUntil(async () => (await connections()) === 0, { timeout: 20_000 });
    expect(socket.readyState).toBe(WebSocket.CLOSING);
    socket.terminate();
  });
});
