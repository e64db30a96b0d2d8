/** An exception in a handler of one connection ends only that connection: these specs throw in each kind of handler. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { ClientFeed } from '../channels/client-feed.js';
import { ClientConnection } from '../channels/client-connection.js';
import { GatheringWebSocket } from '../http/gathering-websocket.js';
import { KernelRules } from '../channels/kernel-rules.js';
import { LiveFeed } from '../keeper-client/feed.js';
import { newSender, RemoteStore } from '../../../machines/src/remote-store.js';
import { silent, TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

let bridge: TemporaryGateway;
const escaped: unknown[] = [];
const note = (error: unknown): void => void escaped.push(error);

beforeAll(async () => {
  process.on('uncaughtExceptionMonitor', note);
  bridge = await TemporaryGateway.start();
  await bridge.gateway.ready;
});
afterEach(() => vi.restoreAllMocks());
afterAll(async () => {
  await bridge[Symbol.asyncDispose]();
  process.off('uncaughtExceptionMonitor', note);
});

const failing = (): never => {
  throw new Error('thrown into a handler');
};

function socketTo(path: string): WebSocket {
  const socket = new WebSocket(`${bridge.url.replace('http', 'ws')}${path}`, {
    headers: { authorization: `token ${TOKEN}` }
  });
  socket.on('error', () => undefined);
  return socket;
}

it.each([
  ['the messages of a client', () => vi.spyOn(KernelRules.prototype, 'refuse').mockImplementation(failing)],
  ['what a client is sent', () => vi.spyOn(ClientFeed.prototype, 'live').mockImplementation(failing)],
  ['the start of a client', () => vi.spyOn(ClientConnection.prototype, 'wake').mockImplementation(failing)]
])('%s: that client is disconnected, and another one continues', async (_what, mock) => {
  const kernelId = await bridge.startKernel({ name: 'lossless' });
  const socket = socketTo(`api/kernels/${kernelId}/channels?session_id=one`);
  await once(socket, 'open');
  mock();
  const closed = once(socket, 'close');
  const header = {
    msg_id: 'm',
    msg_type: 'execute_request',
    session: 'one',
    username: '',
    date: '',
    version: '5.3'
  };
  const content = {
    code: "print('x')",
    silent: false,
    store_history: true,
    allow_stdin: false,
    stop_on_error: true
  };
  socket.send(JSON.stringify({ channel: 'shell', header, parent_header: {}, metadata: {}, content }));
  if (_what === 'the start of a client')
    void bridge.gateway.registry
      .get(kernelId)
      .restart()
      .catch(() => undefined);
  expect(((await closed) as [number])[0]).toBe(1011);
  vi.restoreAllMocks();
  using client = await bridge.connect(kernelId);
  await client.done(client.execute("print('y')"));
  expect(escaped).toEqual([]);
});

it('the events of a page: its socket is closed', async () => {
  const socket = socketTo('bridge/v1/events');
  await once(socket, 'open');
  const closed = once(socket, 'close');
  vi.spyOn(GatheringWebSocket.prototype, 'send').mockImplementationOnce(failing);
  socket.send(JSON.stringify({ op: 'subscribe', topics: ['kernels'] }));
  expect(((await closed) as [number])[0]).toBe(1011);
  expect(escaped).toEqual([]);
});

it('a handshake: it is ended, and the next one succeeds', async () => {
  vi.spyOn(bridge.gateway.upgrades.routes, Symbol.iterator).mockImplementationOnce(failing);
  const refused = socketTo('bridge/v1/events');
  await new Promise(resolve => refused.once('close', resolve));
  const socket = socketTo('bridge/v1/events');
  await once(socket, 'open');
  socket.terminate();
});

it('data from a keeper: the connection to that keeper is re-established, and nothing is lost', async () => {
  const kernelId = await bridge.startKernel({ name: 'lossless' });
  using client = await bridge.connect(kernelId);
  await client.done(client.execute("print('before')"));
  vi.spyOn(LiveFeed.prototype, 'take').mockImplementationOnce(failing);
  await client.done(client.execute("print('after')"));
  expect(escaped).toEqual([]);
});

it('a request over HTTP: it is 500, and the next one is answered', async () => {
  vi.spyOn(bridge.gateway.registry, 'list').mockImplementationOnce(failing);
  expect((await bridge.rest('GET', '/api/kernels')).status).toBe(500);
  expect((await bridge.rest('GET', '/api/kernels')).status).toBe(200);
});

it('after a crash loop the gateway starts without its remotes, and each states the reason', async () => {
  const remotes = { sshProgram: '/bin/false' };
  const stateDir = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  try {
    const store = new RemoteStore(stateDir, silent());
    const source = { kind: 'ssh', destination: 'vm' } as const;
    const record = {
      name: 'vm',
      source,
      environment: 'jax',
      install: true,
      hosts: [],
      lastConnectedAt: null
    };
    await store.save([{ ...record, wanted: true, sender: newSender() }]);
    const pausedBecause = 'it ended three times';
    await using next = await TemporaryGateway.start({ stateDir, remotes, pausedBecause });
    await next.gateway.ready;
    expect((await next.rest('GET', '/bridge/v1/machines/vm')).body).toMatchObject({
      state: 'failed',
      error: { code: 'remote_held_back', message: pausedBecause }
    });
  } finally {
    await rm(stateDir, { recursive: true, force: true });
  }
});
