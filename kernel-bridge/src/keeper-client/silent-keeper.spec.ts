/** Keepers that hang, as on a stalled disk. They have the kernel and all its output, so the gateway waits for them. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { KeeperHandle } from '../keeper-protocol/contract.js';
import { type KeeperAccess, localKeepers } from './access.js';
import { canSignal } from '@tpulab/platform/process-identity.js';
import { isStatus } from '../testing/channels-client.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

/** How long a keeper may take to send hello. A running keeper needs far less, and one that was too slow is retried. */
const HELLO_MS = 500;
const WAIT = { timeout: 90_000, interval: 50 };

let bridge: TemporaryGateway;
let handles: KeeperHandle[];
/** Awaited before the records of a keeper that was found again are requested. */
let beforeSubscribing: () => Promise<void>;

function keepers(): KeeperAccess {
  const access = localKeepers({ helloMs: HELLO_MS });
  return {
    ...access,
    start: async (kernelDir, launch, events) => {
      const handle = await access.start(kernelDir, launch, events);
      handles.push(handle);
      return handle;
    },
    attach: async (kernelDir, events, signal) => {
      const handle = await access.attach(kernelDir, events, signal);
      const subscribe = handle?.subscribe.bind(handle);
      return handle && Object.assign(handle, { subscribe: () => beforeSubscribing().then(subscribe) });
    }
  };
}

beforeEach(async () => {
  handles = [];
  beforeSubscribing = () => Promise.resolve();
  bridge = await TemporaryGateway.start({ keepers: keepers() });
  await bridge.gateway.ready;
});

afterEach(async () => bridge[Symbol.asyncDispose]());

async function newSession(): Promise<{ sessionId: string; id: string; keeperPid: number }> {
  const { body } = await bridge.rest('POST', '/api/sessions', {
    body: { path: 'a.ipynb', type: 'notebook', name: 'a', kernel: { name: 'lossless' } }
  });
  const session = body as { id: string; kernel: { id: string } };
  const { keeperPid } = bridge.gateway.registry.get(session.kernel.id).snapshot;
  return { sessionId: session.id, id: session.kernel.id, keeperPid };
}

/** Another gateway replaces this one, with the same state. */
async function replaceGateway(): Promise<void> {
  const { folder } = bridge;
  await bridge.gateway[Symbol.asyncDispose]();
  bridge = await TemporaryGateway.start({ stateDir: folder, keepers: keepers() });
  await bridge.gateway.ready;
}

async function modelOf(id: string): Promise<Record<string, unknown>> {
  return (await bridge.rest('GET', `/api/kernels/${id}`)).body as Record<string, unknown>;
}

describe('a keeper that hangs while a gateway starts', () => {
  it('keeps its kernel and its session listed, and when it continues no output of the kernel is missing', async () => {
    const { id, sessionId, keeperPid } = await newSession();
    const before = await bridge.connect(id, { sessionId: 'front' });
    await before.run('kept = 41');
    const lines = 400;
    const gate = path.join(bridge.folder, 'gate');
    const slow = before.execute(`
import os, time
for n in range(${lines}):
    print(n, flush=True)
    time.sleep(0.005)
    while n == ${lines / 2} and not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.01)
`);
    await before.until(() => before.printed(slow).length > 0);
    process.kill(keeperPid, 'SIGSTOP');
    await writeFile(gate, '');
    await replaceGateway();

    expect((await bridge.rest('GET', '/api/kernels')).body).toMatchObject([
      {
        id,
        name: 'lossless',
        execution_state: 'unknown',
        reason: expect.stringContaining('does not answer') as string
      }
    ]);
    expect((await bridge.rest('GET', '/api/sessions')).body).toMatchObject([
      { id: sessionId, path: 'a.ipynb', kernel: { id } }
    ]);
    expect(await bridge.rest('POST', `/api/kernels/${id}/interrupt`)).toMatchObject({
      status: 500,
      body: { message: expect.stringContaining('does not answer') as string }
    });
    // Clients reconnect after this status; a client admitted now could not be notified of missed messages.
    expect(await refusalOf(id)).toBe(503);

    process.kill(keeperPid, 'SIGCONT');
    await vi.waitUntil(async () => (await modelOf(id))['execution_state'] !== 'unknown', WAIT);
    const again = await bridge.connect(id, { sessionId: 'front' });
    await again.done(slow);
    const seen = new Set<string>();
    const text = [...before.messages, ...again.messages]
      .filter(({ header }) => !seen.has(header.msg_id) && seen.add(header.msg_id))
      .filter(({ header, parent }) => header.msg_type === 'stream' && parent.msg_id === slow)
      .map(({ content }) => content['text'])
      .join('');
    expect(text).toBe(Array.from({ length: lines }, (_, n) => `${n}\n`).join(''));
    const request = again.execute('print(kept + 1)');
    await again.done(request);
    expect(again.printed(request)).toBe('42\n');
    expect((await bridge.rest('GET', '/api/sessions')).body).toMatchObject([{ id: sessionId }]);
    before[Symbol.dispose]();
    again[Symbol.dispose]();
  });

  it('can be given up: deleting the kernel ends both processes', async () => {
    const { id, keeperPid } = await newSession();
    const { kernelPid } = bridge.gateway.registry.get(id).snapshot;
    process.kill(keeperPid, 'SIGSTOP');
    await replaceGateway();
    expect(await modelOf(id)).toMatchObject({ execution_state: 'unknown' });
    expect((await bridge.rest('DELETE', `/api/kernels/${id}`)).status).toBe(204);
    await vi.waitUntil(() => !canSignal(keeperPid) && !canSignal(kernelPid ?? 0), WAIT);
    expect((await bridge.rest('GET', '/api/kernels')).body).toEqual([]);
    expect((await bridge.rest('GET', '/api/sessions')).body).toEqual([]);
  });

  it('can be given up: a restart gives the kernel another keeper, under the same id', async () => {
    const { id, keeperPid } = await newSession();
    process.kill(keeperPid, 'SIGSTOP');
    await replaceGateway();
    expect(await bridge.rest('POST', `/api/kernels/${id}/restart`)).toMatchObject({
      status: 200,
      body: { id }
    });
    expect(canSignal(keeperPid)).toBe(false);
    const client = await bridge.connect(id);
    const request = client.execute("print('here')");
    await client.done(request);
    expect(client.printed(request)).toBe('here\n');
    client[Symbol.dispose]();
  });

  it('is noticed when it is killed instead: its kernel gets another keeper', async () => {
    const { id, keeperPid } = await newSession();
    const before = await bridge.connect(id);
    await before.run('kept = 41');
    before[Symbol.dispose]();
    process.kill(keeperPid, 'SIGSTOP');
    await replaceGateway();
    expect(await modelOf(id)).toMatchObject({ execution_state: 'unknown' });
    process.kill(keeperPid, 'SIGKILL');
    await vi.waitUntil(async () => (await modelOf(id))['execution_state'] === 'idle', WAIT);
    const client = await bridge.connect(id);
    const request = client.execute('print(kept + 1)');
    await client.done(request);
    expect(client.printed(request)).toBe('42\n');
    client[Symbol.dispose]();
  });
});

describe('a keeper that continues after a gateway has started', () => {
  it("has its kernel's state unknown until clients can be notified of missed messages", async () => {
    const { id, keeperPid } = await newSession();
    process.kill(keeperPid, 'SIGSTOP');
    await replaceGateway();
    let goOn = (): void => undefined;
    const held = new Promise<void>(resolve => (goOn = resolve));
    const isRequested = vi.fn(() => held);
    beforeSubscribing = isRequested;
    process.kill(keeperPid, 'SIGCONT');
    await vi.waitUntil(() => isRequested.mock.calls.length > 0, WAIT);
    expect([(await modelOf(id))['execution_state'], await refusalOf(id)]).toEqual(['unknown', 503]);
    goOn();
    await vi.waitUntil(async () => (await modelOf(id))['execution_state'] === 'idle', WAIT);
    const client = await bridge.connect(id);
    await client.run('pass');
    client[Symbol.dispose]();
  });
});

describe('a keeper that hangs when its gateway has lost the connection', () => {
  it('is awaited: no client is notified that the kernel is dead, and requests sent meanwhile are run', async () => {
    const { id, keeperPid } = await newSession();
    const client = await bridge.connect(id, { sessionId: 'front' });
    await client.run('kept = 41');
    process.kill(keeperPid, 'SIGSTOP');
    // The test has to cut the connection: the socket of a stopped process stays open.
    (handles[0] as unknown as { socket: { destroy(): void } }).socket.destroy();
    await vi.waitUntil(async () => (await modelOf(id))['execution_state'] === 'unknown', WAIT);
    const request = client.execute('print(kept + 1)');
    expect((await bridge.rest('POST', `/api/kernels/${id}/interrupt`)).status).toBe(500);
    process.kill(keeperPid, 'SIGCONT');
    await client.done(request);
    expect(client.printed(request)).toBe('42\n');
    expect(client.closed).toBeNull();
    expect(client.messages.filter(message => isStatus(message, 'dead'))).toEqual([]);
    expect(await modelOf(id)).not.toHaveProperty('reason');
    client[Symbol.dispose]();
  });
});

/** The HTTP status with which a WebSocket is refused. */
async function refusalOf(id: string): Promise<number> {
  const error: unknown = await bridge.connect(id).then(
    () => null,
    (reason: unknown) => reason
  );
  return Number(/Unexpected server response: (\d+)/.exec(String(error))?.[1] ?? 0);
}
