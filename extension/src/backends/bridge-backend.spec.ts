import { ServerConnection } from '@jupyterlab/services';
import { afterEach, expect, test, vi } from 'vitest';
import { type Fault, FakeJupyterServer } from '../testing/fake-jupyter-server.js';
import { Page, until } from '../testing/page.js';

const opened: AsyncDisposable[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const item of opened.splice(0)) {
    await item[Symbol.asyncDispose]();
  }
});

/** A page that has sent no request to its bridge yet. */
async function newPage(options: ConstructorParameters<typeof Page>[2] = {}): Promise<Page> {
  const jupyter = await FakeJupyterServer.start({ specs: ['python3'] });
  const bridge = await FakeJupyterServer.start({ specs: ['tpulab-jax'] });
  jupyter.bridgeAddress = { status: 'ready', url: bridge.url, token: bridge.token, message: null };
  const page = new Page(jupyter, bridge, options);
  opened.push(page);
  return page;
}

/** Time limits of this length end only when the returned function is called, so no answer is too late before that. */
function holdLimits(heldMs: number): () => void {
  const held: AbortController[] = [];
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  vi.spyOn(AbortSignal, 'timeout').mockImplementation(ms => {
    if (ms !== heldMs) {
      return timeout(ms);
    }
    const controller = new AbortController();
    held.push(controller);
    return controller.signal;
  });
  return () => held.forEach(each => each.abort(new DOMException('The time is over.', 'TimeoutError')));
}

test('finds the bridge through the Jupyter server and returns its address', async () => {
  const page = await newPage();
  const { bridge } = page.backends;
  expect(bridge.state).toBe('starting');
  expect(bridge.serverSettings).toBeNull();
  bridge.start();
  await until(() => bridge.state === 'ok');
  expect(bridge.lastError).toBeNull();
  expect(bridge.nextRetryAt).toBeNull();
  expect(bridge.serverSettings?.baseUrl).toBe(page.bridge.url);
  expect(bridge.serverSettings?.appendToken).toBe(true);
});

test('tries the same loopback name when the other one leads nowhere', async () => {
  const page = await newPage({
    pageHostname: '127.0.0.1',
    fetch: (input, init) => {
      const request = new Request(input, init);
      return new URL(request.url).hostname === 'localhost'
        ? Promise.reject(new TypeError('refused'))
        : fetch(request);
    }
  });
  page.backends.bridge.start();
  await until(() => page.backends.bridge.state === 'ok');
  expect(page.backends.bridge.serverSettings?.baseUrl).toBe(page.bridge.url);
});

test.each<[Fault, string, string]>([
  ['unavailable', 'bridge.starting', 'starting'],
  ['wrongToken', 'bridge.unauthorized', 'auth'],
  ['html', 'bridge.notABridge', 'down'],
  ['hang', 'bridge.timeout', 'down'],
  ['stall', 'bridge.timeout', 'down']
])('a bridge that is %s ends as %s, with a time for the next try', async (fault, code, state) => {
  // Any answer may take long on a busy machine, which is not an error.
  const probeTimeoutMs = code === 'bridge.timeout' ? 1_000 : 60_000;
  const page = await newPage({ probeTimeoutMs, longestRetryMs: 60_000 });
  page.bridge.fault = fault;
  const { bridge } = page.backends;
  const startedAt = Date.now();
  bridge.start();
  // The request for the address has the same limit. When it is missed, the address is requested again.
  await until(() => ![undefined, 'bridge.addressUnreachable'].includes(bridge.lastError?.code));
  expect(bridge.lastError?.code).toBe(code);
  expect(bridge.state).toBe(state);
  expect(bridge.nextRetryAt).toBeGreaterThan(startedAt);
  page.bridge.fault = null;
  bridge.reconnectNow();
  await until(() => bridge.state === 'ok');
  expect(bridge.nextRetryAt).toBeNull();
});

test.each([
  ['a missing server extension', null, 'bridge.noServerExtension'],
  ['a failed start', { status: 'failed', url: null, token: null, message: 'Install Node.' }, 'bridge.failed'],
  ['a start that goes on', { status: 'starting', url: null, token: null, message: null }, 'bridge.starting'],
  [
    'an address that is none',
    { status: 'ready', url: 'file:///etc', token: 't', message: null },
    'bridge.addressUnreachable'
  ]
])('says so at %s', async (_, address, code) => {
  const page = await newPage({ longestRetryMs: 60_000 });
  page.jupyter.bridgeAddress = address;
  page.backends.bridge.start();
  await until(() => page.backends.bridge.lastError !== null);
  expect(page.backends.bridge.lastError?.code).toBe(code);
});

test('a failing request of any caller starts a check, and a recovery is announced', async () => {
  const page = await newPage();
  const { bridge } = page.backends;
  bridge.start();
  await until(() => bridge.state === 'ok');
  let recoveries = 0;
  bridge.recovered.connect(() => recoveries++);
  page.bridge.fault = 'unavailable';
  const url = `${bridge.liveSettings.baseUrl}api/kernels`;
  expect((await ServerConnection.makeRequest(url, {}, bridge.liveSettings)).status).toBe(503);
  await until(() => bridge.state === 'down');
  page.bridge.fault = null;
  await until(() => bridge.state === 'ok');
  expect(recoveries).toBe(1);
});

test('follows a bridge that comes back with another port and token', async () => {
  const page = await newPage();
  const { bridge } = page.backends;
  bridge.start();
  await until(() => bridge.state === 'ok');
  const other = await FakeJupyterServer.start({ specs: ['tpulab-jax'] });
  opened.push(other);
  page.jupyter.bridgeAddress = { status: 'ready', url: other.url, token: other.token, message: null };
  page.bridge.fault = 'wrongToken';
  bridge.suspect();
  await until(() => bridge.serverSettings?.baseUrl === other.url);
  await until(() => bridge.state === 'ok');
  expect(bridge.liveSettings.baseUrl).toBe(other.url);
  expect(bridge.liveSettings.wsUrl).toBe(other.url.replace('http', 'ws'));
  expect(bridge.liveSettings.token).toBe(other.token);
});

test('continues with the known address while the Jupyter server is unreachable', async () => {
  const page = await newPage();
  const { bridge } = page.backends;
  bridge.start();
  await until(() => bridge.state === 'ok');
  page.jupyter.fault = 'hang';
  const requested = page.bridge.count('GET /bridge/v1/health');
  bridge.suspect();
  await until(() => page.bridge.count('GET /bridge/v1/health') > requested);
  expect(bridge.state).toBe('ok');
});

test('sends neither cookies nor the XSRF value of the page, and no time stamps in URLs', async () => {
  const page = await newPage();
  const { liveSettings } = page.backends.bridge;
  page.backends.bridge.start();
  await until(() => page.backends.bridge.state === 'ok');
  const headers = { 'X-XSRFToken': 'secret' };
  await ServerConnection.makeRequest(`${liveSettings.baseUrl}api/kernels`, { headers }, liveSettings);
  expect(page.bridge.lastHeaders['x-xsrftoken']).toBeUndefined();
  expect(page.bridge.lastHeaders.authorization).toBe(`token ${page.bridge.token}`);
  expect(liveSettings.init).toMatchObject({ cache: 'default', credentials: 'omit' });
});

test('gives up a request without an answer, even one that stalls in the middle', async () => {
  const elapse = holdLimits(1_234);
  const page = await newPage({ readTimeoutMs: 1_234 });
  const { bridge } = page.backends;
  bridge.start();
  await until(() => bridge.state === 'ok');
  const url = `${bridge.liveSettings.baseUrl}api/kernels`;
  page.bridge.faultAt.set('/api/kernels', 'hang');
  const asking = ServerConnection.makeRequest(url, {}, bridge.liveSettings);
  const refused = expect(asking).rejects.toThrow(ServerConnection.NetworkError);
  await until(() => page.bridge.count('GET /api/kernels') === 1);
  elapse();
  await refused;
  page.bridge.faultAt.set('/api/kernels', 'stall');
  const response = await ServerConnection.makeRequest(url, {}, bridge.liveSettings);
  elapse();
  await expect(response.json()).rejects.toThrow();
});

test('refuses requests with a reason while there is no address', async () => {
  const page = await newPage();
  const { liveSettings } = page.backends.bridge;
  await expect(ServerConnection.makeRequest(`${liveSettings.baseUrl}api`, {}, liveSettings)).rejects.toThrow(
    'has no address yet'
  );
});

test('waits for a bridge no longer than its time limit', async () => {
  const page = await newPage({ probeTimeoutMs: 60_000 });
  page.bridge.fault = 'hang';
  page.backends.bridge.start();
  expect(await page.backends.bridge.settled(20)).toBe(false);
  await expect(page.backends.bridge.serving(20)).rejects.toMatchObject({ code: 'bridge.notReady' });
});

test('stays off once it is disabled, and gives the reason', async () => {
  const page = await newPage();
  const { bridge } = page.backends;
  bridge.start();
  await until(() => bridge.state === 'ok');
  page.backends.disable(new Error('kernel manager broke'));
  expect(bridge.state).toBe('down');
  expect(bridge.lastError).toMatchObject({
    code: 'bridge.disabled',
    message: expect.stringContaining('broke') as string
  });
  const requested = page.bridge.requests.length;
  bridge.reconnectNow();
  await expect(bridge.serving(10)).rejects.toMatchObject({ code: 'bridge.notReady' });
  expect(page.bridge.requests.length).toBe(requested);
});
