/** The bridge ends, and another program takes its port: pages continue to send requests there. */
import { ServerConnection } from '@jupyterlab/services';
import { afterEach, expect, test } from 'vitest';
import { FakeJupyterServer } from '../testing/fake-jupyter-server.js';
import { LONG_MS, Page, until } from '../testing/page.js';

const opened: AsyncDisposable[] = [];
afterEach(async () => {
  for (const item of opened.splice(0)) {
    await item[Symbol.asyncDispose]();
  }
});

async function newPage(longestRetryMs: number): Promise<Page> {
  const jupyter = await FakeJupyterServer.start({ specs: ['python3'] });
  const bridge = await FakeJupyterServer.start({ specs: ['tpulab-jax'] });
  bridge.proofKey = 'the key of the bridge';
  const { url, token, proofKey } = bridge;
  jupyter.bridgeAddress = { status: 'ready', url, token, proofKey, message: null };
  const page = new Page(jupyter, bridge, { longestRetryMs });
  opened.push(page);
  page.backends.bridge.start();
  await until(() => page.backends.bridge.state === 'ok');
  return page;
}

function request(settings: ServerConnection.ISettings): Promise<unknown> {
  const url = `${settings.baseUrl}api/kernels`;
  return ServerConnection.makeRequest(url, {}, settings).catch((error: unknown) => error);
}

function channels(settings: ServerConnection.ISettings): WebSocket {
  const url = `${settings.wsUrl}api/kernels/k/channels?session_id=s&token=${settings.token}`;
  const socket = new settings.WebSocket(url, ['v1.kernel.websocket.jupyter.org']);
  socket.addEventListener('error', () => undefined);
  return socket;
}

test.each(['that answers like the bridge', 'that sends a proof with another key'])(
  'a stranger %s gets no token, from polls, sockets or probes',
  async what => {
    const page = await newPage(20);
    const { bridge } = page.backends;
    const { liveSettings: settings } = bridge;
    const open = channels(settings);
    await until(() => page.bridge.sockets.size === 1);
    const closed = new Promise(resolve => open.addEventListener('close', resolve));
    const { port, token } = page.bridge;
    await page.bridge[Symbol.asyncDispose]();
    const foreignServer = await FakeJupyterServer.start({ specs: ['tpulab-jax'], token }, port);
    opened.push(foreignServer);
    foreignServer.proofKey = what.includes('another key') ? 'a guess' : null;
    await closed;
    for (let count = 0; count < 5; count++) {
      await request(settings);
      channels(settings);
      bridge.reconnectNow();
      await until(() => bridge.state === 'down');
    }
    await until(
      () => foreignServer.requests.includes('GET /bridge/v1/identity') || foreignServer.proofKey !== null
    );
    expect(bridge.lastError?.code).toBe('bridge.notABridge');
    expect([...foreignServer.tokens].filter(sent => sent.includes(token))).toEqual([]);

    // The Jupyter server has started another bridge.
    const next = await FakeJupyterServer.start({ specs: ['tpulab-jax'] });
    opened.push(next);
    next.proofKey = 'the next key';
    page.jupyter.bridgeAddress = {
      ...{ status: 'ready', url: next.url, token: next.token, proofKey: next.proofKey, message: null }
    };
    await until(() => bridge.state === 'ok');
    expect(settings.baseUrl).toBe(next.url);
  }
);

test('a slow bridge has to prove its identity, and its callers are notified', async () => {
  let isBroken = false;
  const jupyter = await FakeJupyterServer.start({ specs: ['python3'] });
  const fake = await FakeJupyterServer.start({ specs: ['tpulab-jax'] });
  fake.proofKey = 'the key of the bridge';
  const { url, token, proofKey } = fake;
  jupyter.bridgeAddress = { status: 'ready', url, token, proofKey, message: null };
  const page = new Page(jupyter, fake, {
    longestRetryMs: LONG_MS,
    fetch: (input, init) => (isBroken ? Promise.reject(new TypeError('broken')) : fetch(input, init))
  });
  opened.push(page);
  const { bridge } = page.backends;
  bridge.start();
  await until(() => bridge.state === 'ok');
  let recoveries = 0;
  bridge.recovered.connect(() => recoveries++);
  isBroken = true;
  const first = request(bridge.liveSettings);
  const second = first.then(() => request(bridge.liveSettings));
  await first;
  isBroken = false;
  expect(await second).toBeInstanceOf(Error);
  await until(() => recoveries === 1);
  expect(bridge.state).toBe('ok');
  expect(((await request(bridge.liveSettings)) as Response).status).toBe(200);
});
