import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { expireSoon } from './testing/expire-soon.js';
import { TokenStore } from './token-store.js';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();
let store: TokenStore;

beforeAll(async () => {
  store = new TokenStore(bridge.folder);
});

async function eventsSocket(token: string): Promise<WebSocket> {
  const socket = new WebSocket(new URL(`bridge/v1/events?token=${token}`, bridge.url.replace('http', 'ws')));
  await once(socket, 'open');
  return socket;
}

async function status(token: string): Promise<number> {
  return (await bridge.rest('GET', '/api/kernels', { token })).status;
}

describe('a named token', () => {
  it('is accepted from its creation, and refused after it was revoked', async () => {
    const { token } = await store.create('laptop', null);
    expect(await status(token)).toBe(200);
    expect(await status(`${token}x`)).toBe(403);
    await store.revoke('laptop');
    expect(await status(token)).toBe(403);
  });

  it('closes its open sockets when it is revoked, and no others', async () => {
    const { token } = await store.create('tablet', null);
    const { token: otherToken } = await store.create('desk', null);
    const kernelId = await bridge.startKernel();
    using client = await bridge.connect(kernelId, { token });
    using other = await bridge.connect(kernelId, { token: otherToken });
    const own = await eventsSocket(TOKEN);
    const revoked = await eventsSocket(token);
    await client.run('kept = 42');
    const closed = once(revoked, 'close') as Promise<[number, Buffer]>;
    await store.revoke('tablet');
    expect((await closed)[0]).toBe(1008);
    expect(await client.untilClosed()).toMatchObject({ code: 1008 });
    const request = other.execute('print(kept)');
    await other.done(request);
    expect(other.printed(request)).toBe('42\n');
    expect([own.readyState, other.closed]).toEqual([WebSocket.OPEN, null]);
    own.terminate();
  });

  it('ends automatically when it expires, its sockets too', async () => {
    const { token } = await store.create('visitor', new Date(Date.now() + 3_600_000));
    const socket = await eventsSocket(token);
    const closed = once(socket, 'close') as Promise<[number]>;
    await expireSoon(bridge.folder, 'visitor');
    expect((await closed)[0]).toBe(1008);
    expect(await status(token)).toBe(403);
    expect(store.list().map(({ name }) => name)).toContain('visitor');
  });

  it('is stored as a digest, in a file that only this user can read', async () => {
    const { token } = await store.create('paper', null);
    const file = path.join(bridge.folder, 'tokens.json');
    expect(readFileSync(file, 'utf8')).not.toContain(token);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it('a damaged file accepts no named token, and the gateway’s own token continues to work', async () => {
    const { token } = await store.create('casualty', null);
    const file = path.join(bridge.folder, 'tokens.json');
    const before = readFileSync(file);
    writeFileSync(file, '{"version": 1, "tokens": [{"name"');
    expect([await status(token), await status(TOKEN)]).toEqual([403, 200]);
    writeFileSync(file, before);
    expect(await status(token)).toBe(200);
  });
});
