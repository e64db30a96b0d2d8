import { afterEach, beforeEach, expect, test } from 'vitest';
import { FakeJupyterServer, type Fault } from '../testing/fake-jupyter-server.js';
import { longTimeouts, Page, until } from '../testing/page.js';
import { LogoLoader } from './logos.js';
import { CompositeSpecManager } from './managers.js';
import { SpecCache } from './spec-cache.js';
import { CompositeSpecClient, type ISpecWaits } from './spec-client.js';

let page: Page;
let storage: Map<string, string>;
let waits: ISpecWaits;
beforeEach(async () => {
  page = await Page.open();
  storage = new Map();
  waits = longTimeouts();
});
afterEach(() => page[Symbol.asyncDispose]());

function newClient(of: Page = page): CompositeSpecClient {
  const memory = {
    getItem: (key: string) => storage.get(key) ?? null,
    setItem: (key: string, value: string) => void storage.set(key, value)
  };
  return new CompositeSpecClient(of.backends, new SpecCache(memory), new LogoLoader(), waits);
}

const names = (specs: { kernelspecs: object }): string[] => Object.keys(specs.kernelspecs).sort();

test('shows both backends, with names that cannot conflict and the default of the Jupyter server', async () => {
  const specs = await newClient().get();
  expect(names(specs)).toEqual(['bridge/python3', 'python3', 'tpulab-jax']);
  expect(specs.default).toBe('python3');
  expect(specs.kernelspecs['bridge/python3']?.display_name).toBe('Spec python3 (TPULab server)');
  expect(specs.kernelspecs['tpulab-jax']?.display_name).toBe('Spec tpulab-jax');
  expect(specs.kernelspecs['bridge/python3']?.name).toBe('bridge/python3');
});

test('offers the bridge alone when the environment of JupyterLab has no kernelspec', async () => {
  const bare = await FakeJupyterServer.start({ specs: [] });
  bare.bridgeAddress = page.jupyter.bridgeAddress;
  const other = new Page(bare, page.bridge);
  other.backends.bridge.start();
  await until(() => other.backends.bridge.state === 'ok');
  const specs = await newClient(other).get();
  expect(names(specs)).toEqual(['bridge/python3', 'tpulab-jax']);
  expect(specs.default).toBe('tpulab-jax');
  other.backends.dispose();
  await bare[Symbol.asyncDispose]();
});

// `tpulab env create` in a terminal, while the page is open.
test('notifies of a kernelspec that was created meanwhile', async () => {
  const client = newClient();
  await client.get();
  await client.poll();
  let changes = 0;
  client.gatewaySpecsChanged.connect(() => changes++);
  page.bridge.options.specs = [...page.bridge.options.specs, 'tpulab-new'];
  await client.poll();
  expect(changes).toBe(1);
  expect(Object.keys(client.gatewaySpecs())).toContain('tpulab-new');
});

test('fetches logos with the token and returns them as data URLs', async () => {
  const client = newClient();
  let changes = 0;
  client.gatewaySpecsChanged.connect(() => changes++);
  await client.get();
  await until(() => changes === 1);
  const specs = await client.get();
  expect(specs.kernelspecs['tpulab-jax']?.resources['logo-svg']).toMatch(/^data:image\/svg\+xml;base64,/);
  expect(page.bridge.count('GET /kernelspecs/tpulab-jax/logo-svg.svg')).toBe(1);
});

test.each<Fault>(['hang', 'html', 'unavailable', 'wrongToken'])(
  'a bridge that is %s keeps its specs and hides none of the Jupyter server',
  async fault => {
    const client = newClient();
    await client.get();
    page.bridge.fault = fault;
    if (fault === 'hang') {
      waits.gatewayListMs = 100;
    }
    expect(names(await client.get())).toEqual(['bridge/python3', 'python3', 'tpulab-jax']);
    await until(() => page.backends.bridge.lastError !== null || fault === 'hang');
  }
);

test('an unreachable Jupyter server retains its specs and is reported', async () => {
  const client = newClient();
  await client.get();
  page.jupyter.fault = 'unavailable';
  let failures = 0;
  client.connectionFailure.connect(() => failures++);
  expect(names(await client.get())).toEqual(['bridge/python3', 'python3', 'tpulab-jax']);
  expect(failures).toBe(1);
});

test('caches the specs for a page that opens while the bridge starts, and forgets them when it is down', async () => {
  await newClient().get();
  const early = new Page(page.jupyter, page.bridge, { longestRetryMs: 60_000 });
  page.jupyter.bridgeAddress = { status: 'starting', url: null, token: null, message: null };
  early.backends.bridge.start();
  waits.firstListMs = 100;
  const client = newClient(early);
  const specs = await client.get();
  expect(names(specs)).toEqual(['bridge/python3', 'python3', 'tpulab-jax']);
  expect(early.backends.isBridgeSpec('tpulab-jax')).toBe(true);
  page.jupyter.bridgeAddress = { status: 'failed', url: null, token: null, message: 'no' };
  early.backends.bridge.reconnectNow();
  await until(() => early.backends.bridge.state === 'down');
  expect(names(await client.get())).toEqual(['python3']);
  early.backends.dispose();
});

test('ignores an invalid cache', () => {
  const cache = new SpecCache({ getItem: () => '{"x":{"name":1}}', setItem: () => undefined });
  expect(cache.read('bridge')).toEqual({});
  const forbidden = new SpecCache({
    getItem: () => {
      throw new Error('denied');
    },
    setItem: () => {
      throw new Error('denied');
    }
  });
  expect(forbidden.read('bridge')).toEqual({});
  expect(() => forbidden.write('bridge', {})).not.toThrow();
});

test('a `tpulab-*` kernelspec that only the Jupyter server lists belongs to that server', async () => {
  const installed = await FakeJupyterServer.start({ specs: ['tpulab-torch', 'tpulab-jax'] });
  installed.bridgeAddress = page.jupyter.bridgeAddress;
  const other = new Page(installed, page.bridge);
  other.backends.bridge.start();
  await until(() => other.backends.bridge.state === 'ok');
  await newClient(other).get();
  expect(other.backends.specPlace('tpulab-torch')).toBe('jupyter');
  expect(other.backends.specPlace('tpulab-jax')).toBe('bridge');
  other.backends.dispose();
  await installed[Symbol.asyncDispose]();
});

// For a notebook whose kernelspec is in no list, Lab asks the user for a kernel, and the TPULab kernels are not among the choices.
test('the first list in a browser without a cache waits for a server that starts with Lab', async () => {
  page.jupyter.bridgeAddress = { status: 'starting', url: null, token: null, message: null };
  const early = new Page(page.jupyter, page.bridge);
  early.backends.bridge.start();
  waits.firstListMs = 0;
  const first = newClient(early).get();
  await until(() => early.backends.bridge.lastError?.code === 'bridge.starting');
  const { url, token } = page.bridge;
  page.jupyter.bridgeAddress = { status: 'ready', url, token, message: null };
  early.backends.bridge.reconnectNow();
  expect(names(await first)).toEqual(['bridge/python3', 'python3', 'tpulab-jax']);
  early.backends.dispose();
});

test('the manager is ready without the bridge and notifies of specs that arrive later', async () => {
  page.jupyter.bridgeAddress = { status: 'starting', url: null, token: null, message: null };
  const late = new Page(page.jupyter, page.bridge);
  late.backends.bridge.start();
  waits.firstVisitMs = 100;
  const client = newClient(late);
  const manager = new CompositeSpecManager({
    serverSettings: client.serverSettings,
    kernelSpecAPIClient: client
  });
  late.backends.bridge.recovered.connect(() => void manager.refreshSpecs());
  expect(manager.isReady).toBe(false);
  await manager.ready;
  expect(manager.isReady).toBe(true);
  expect(names(manager.specs ?? { kernelspecs: {} })).toEqual(['python3']);
  page.jupyter.bridgeAddress = {
    status: 'ready',
    url: page.bridge.url,
    token: page.bridge.token,
    message: null
  };
  late.backends.bridge.reconnectNow();
  await until(() => manager.specs?.kernelspecs['tpulab-jax'] !== undefined);
  // Lists requested by the recovery and the logos may arrive in the meantime: each failing list is reported once.
  await manager.refreshSpecs();
  let failures = 0;
  manager.connectionFailure.connect(() => failures++);
  let refused = 0;
  page.jupyter.fault = 'unavailable';
  page.jupyter.beforeAnswer = (_, path) => {
    refused += Number(path.endsWith('/kernelspecs'));
    return Promise.resolve();
  };
  await manager.refreshSpecs();
  expect(refused).toBeGreaterThan(0);
  await until(() => failures === refused);
  manager.dispose();
  expect(manager.isDisposed).toBe(true);
  late.backends.dispose();
});
