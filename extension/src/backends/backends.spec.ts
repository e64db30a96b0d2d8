import { afterEach, beforeEach, expect, test } from 'vitest';
import { CompositeKernelManager } from '../kernels/kernel-manager.js';
import { LogoLoader } from '../kernels/logos.js';
import { CompositeSpecManager } from '../kernels/managers.js';
import { CompositeSessionClient } from '../kernels/session-client.js';
import { SpecCache } from '../kernels/spec-cache.js';
import { CompositeSpecClient } from '../kernels/spec-client.js';
import { FakeJupyterServer } from '../testing/fake-jupyter-server.js';
import { longTimeouts, Page, until } from '../testing/page.js';
import { remote } from '../testing/remotes.js';

const ACCELERATOR = { type: 'v5litepod-8', chip: 'v5e', chips: 8 };

let page: Page;
let far: FakeJupyterServer;

beforeEach(async () => {
  const jupyter = await FakeJupyterServer.start({ specs: ['python3'] });
  const bridge = await FakeJupyterServer.start({ specs: ['tpulab-jax'] });
  far = await FakeJupyterServer.start({ specs: ['tpulab-jax', 'python3'], token: bridge.token });
  jupyter.bridgeAddress = { status: 'ready', url: bridge.url, token: bridge.token, message: null };
  bridge.remotes = [
    remote({ state: 'connected', accelerator: ACCELERATOR }),
    remote({ name: 'other', state: 'disconnected' })
  ];
  bridge.mounts.set('my-tpu', far);
  page = new Page(jupyter, bridge);
  page.backends.bridge.start();
  await until(() => page.backends.gateway('remote/my-tpu')?.state === 'ok');
});
afterEach(async () => {
  await page[Symbol.asyncDispose]();
  await far[Symbol.asyncDispose]();
});

test('kernelspecs of a remote are listed beside those of this machine, with their place', async () => {
  const client = new CompositeSpecClient(
    page.backends,
    new SpecCache(null),
    new LogoLoader(),
    longTimeouts()
  );
  const { kernelspecs } = await client.get();
  expect(Object.keys(kernelspecs)).toEqual([
    'python3',
    'tpulab-jax',
    'remote/my-tpu/tpulab-jax',
    'remote/my-tpu/python3'
  ]);
  expect(kernelspecs['remote/my-tpu/tpulab-jax']?.display_name).toBe('Spec tpulab-jax · my-tpu (v5e-8)');
});

test('the first list of a new page has the connected remotes', async () => {
  const fresh = new Page(page.jupyter, page.bridge);
  const client = new CompositeSpecClient(
    fresh.backends,
    new SpecCache(null),
    new LogoLoader(),
    longTimeouts()
  );
  const first = client.get();
  fresh.backends.bridge.start();
  expect(Object.keys((await first).kernelspecs)).toContain('remote/my-tpu/tpulab-jax');
  fresh.backends.dispose();
});

test('a remote that begins to serve during a list request is in the next list, which joining that request would miss', async () => {
  const { backends, bridge } = page;
  const client = new CompositeSpecClient(backends, new SpecCache(null), new LogoLoader(), longTimeouts());
  const get = client.get.bind(client);
  let release = (): void => undefined;
  let held: Promise<void> | null = null;
  client.get = async () => {
    const specs = await get();
    await held;
    return specs;
  };
  const options = { serverSettings: client.serverSettings, kernelSpecAPIClient: client };
  const manager = new CompositeSpecManager({ ...options, standby: 'never' });
  await manager.ready;
  held = new Promise(resolve => (release = resolve));
  const underWay = manager.refreshSpecs();
  await get();
  bridge.mounts.set('other', far);
  backends.remotes.apply({ remote: remote({ name: 'other', state: 'connected' }), removed: false });
  await until(() => backends.gateway('remote/other')?.state === 'ok');
  const requested = manager.refreshSpecs();
  release();
  await Promise.all([underWay, requested]);
  expect(Object.keys(manager.specs?.kernelspecs ?? {})).toContain('remote/other/tpulab-jax');
  manager.dispose();
});

test('a session starts on its remote, moves to the bridge and back, under one id', async () => {
  const sessions = new CompositeSessionClient(page.backends, longTimeouts());
  await sessions.listRunning();
  const kernel = { name: 'remote/my-tpu/tpulab-jax' };
  const begun = await sessions.startNew({ path: 'a.ipynb', name: 'a', type: 'notebook', kernel });
  expect(begun.kernel?.name).toBe(kernel.name);
  expect([...far.sessions.values()].map(({ kernel: { name } }) => name)).toEqual(['tpulab-jax']);
  const moved = await sessions.update({ id: begun.id, kernel: { name: 'tpulab-jax' } });
  expect(moved).toMatchObject({ id: begun.id, kernel: { name: 'tpulab-jax' } });
  expect(page.bridge.sessions.size).toBe(1);
  await until(() => far.sessions.size === 0);
  const back = await sessions.update({ id: begun.id, kernel });
  expect(back).toMatchObject({ id: begun.id, kernel });
});

test('kernels of an unreachable remote stay listed, and other backends are not affected', async () => {
  const { backends } = page;
  far.addKernel('tpulab-jax');
  const manager = new CompositeKernelManager({ backends, specClient: undefined });
  await manager.ready;
  await manager.refreshRunning();
  expect([...manager.running()].map(({ name }) => name)).toEqual(['remote/my-tpu/tpulab-jax']);
  page.bridge.mounts.delete('my-tpu');
  const lost = remote({ state: 'reconnecting', nextAttemptAt: 5 });
  backends.remotes.apply({ remote: lost, removed: false });
  await until(() => backends.gateway('remote/my-tpu')?.state === 'down');
  expect(backends.gateway('remote/my-tpu')).toMatchObject({ nextRetryAt: 5, serverSettings: null });
  await manager.refreshRunning();
  expect([...manager.running()]).toHaveLength(1);
  expect(backends.bridge.state).toBe('ok');
  manager.dispose();
});

test('requesting a kernel on a disconnected remote connects the remote', async () => {
  const manager = new CompositeKernelManager({ backends: page.backends, specClient: undefined });
  const started = manager.startNew({ name: 'remote/other/tpulab-jax' });
  await until(() => page.bridge.requested.includes('/bridge/v1/machines/other/connect'));
  page.bridge.mounts.set('other', far);
  page.backends.remotes.apply({ remote: remote({ name: 'other', state: 'connected' }), removed: false });
  expect((await started).name).toBe('remote/other/tpulab-jax');
  manager.dispose();
});

test('removing a remote removes its kernels, and starting one on it fails with the reason', async () => {
  const { backends } = page;
  far.addKernel('tpulab-jax');
  const manager = new CompositeKernelManager({ backends, specClient: undefined });
  await manager.refreshRunning();
  await until(() => manager.runningCount === 1);
  backends.remotes.apply({ remote: remote(), removed: true });
  expect(manager.runningCount).toBe(0);
  await expect(manager.startNew({ name: 'remote/my-tpu/tpulab-jax' })).rejects.toThrow('no machine "my-tpu"');
  manager.dispose();
});

test('changes of a remote outrank a list that was requested before them', async () => {
  const { remotes } = page.backends;
  const listing = remotes.refresh();
  remotes.apply({ remote: remote({ state: 'reconnecting' }), removed: false });
  remotes.apply({ remote: remote({ name: 'other' }), removed: true });
  remotes.apply({ remote: remote({ name: 'new' }), removed: false });
  await listing;
  expect(remotes.all.map(({ name, state }) => [name, state])).toEqual([
    ['my-tpu', 'reconnecting'],
    ['new', 'disconnected']
  ]);
  // The next list is newer than these changes.
  await remotes.refresh();
  expect(remotes.all.map(({ name, state }) => [name, state])).toEqual([
    ['my-tpu', 'connected'],
    ['other', 'disconnected']
  ]);
});

test('a bridge that does not support remotes has none', async () => {
  const jupyter = await FakeJupyterServer.start({ specs: ['python3'] });
  const bridge = await FakeJupyterServer.start({ specs: ['tpulab-jax'] });
  jupyter.bridgeAddress = { status: 'ready', url: bridge.url, token: bridge.token, message: null };
  const plain = new Page(jupyter, bridge);
  plain.backends.bridge.start();
  await until(() => plain.backends.remotes.isKnown);
  expect(plain.backends.remotes.all).toEqual([]);
  expect(plain.backends.gateways).toHaveLength(1);
  await plain[Symbol.asyncDispose]();
});
