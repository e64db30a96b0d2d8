import { CommsOverSubshells } from '@jupyterlab/services';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Fault } from '../testing/fake-jupyter-server.js';
import { Backends } from '../backends/backends.js';
import { longTimeouts, Page, until } from '../testing/page.js';
import { CompositeKernelManager } from './kernel-manager.js';
import { LogoLoader } from './logos.js';
import { CompositeSessionClient } from './session-client.js';
import { SpecCache } from './spec-cache.js';
import { CompositeSpecClient } from './spec-client.js';

let page: Page;
let manager: CompositeKernelManager;
beforeEach(() => open());
afterEach(() => close());

async function open(options: Parameters<typeof Page.open>[0] = {}): Promise<void> {
  page = await Page.open(options);
  manager = newManager();
}

async function close(): Promise<void> {
  manager.dispose();
  await page[Symbol.asyncDispose]();
}

function newManager(): CompositeKernelManager {
  return new CompositeKernelManager({ backends: page.backends, specClient: undefined });
}

test('starts kernels at the backend of their name and connects to its sockets', async () => {
  const own = await manager.startNew({ name: 'python3' });
  const bridged = await manager.startNew({ name: 'tpulab-jax' });
  const best = await manager.startNew({ name: 'bridge/python3' });
  await until(() => [own, bridged, best].every(kernel => kernel.connectionStatus === 'connected'));
  expect(page.jupyter.sockets.size).toBe(1);
  expect(page.bridge.sockets.size).toBe(2);
  expect(best.name).toBe('bridge/python3');
  expect([...page.bridge.kernels.values()].map(kernel => kernel.name)).toEqual(['tpulab-jax', 'python3']);
  expect(page.backends.backendOf(own.id)?.id).toBe('jupyter');
  expect(page.backends.backendOf(best.id)?.id).toBe('bridge');
});

test('lists the kernels of both backends and notifies when one of them changes', async () => {
  await manager.ready;
  expect(manager.isReady).toBe(true);
  const seen: string[][] = [];
  manager.runningChanged.connect((_, models) => seen.push(models.map(model => model.name)));
  page.jupyter.addKernel('python3');
  const kernel = page.bridge.addKernel('python3');
  await manager.refreshRunning();
  expect([...manager.running()].map(model => model.name)).toEqual(['python3', 'bridge/python3']);
  expect(manager.runningCount).toBe(2);
  expect(seen.at(-1)).toEqual(['python3', 'bridge/python3']);
  expect((await manager.findById(kernel.id))?.name).toBe('bridge/python3');
  const late = page.bridge.addKernel('tpulab-jax');
  expect((await manager.findById(late.id))?.name).toBe('tpulab-jax');
  expect(await manager.findById('none')).toBeUndefined();
});

test('connects to a kernel that no list has shown by the name in its model', async () => {
  const { id } = page.bridge.addKernel('tpulab-jax');
  const kernel = manager.connectTo({ model: { id, name: 'tpulab-jax' } });
  await until(() => kernel.connectionStatus === 'connected');
  expect(page.bridge.sockets.size).toBe(1);
});

test('shuts down one kernel at its backend, and then all', async () => {
  const own = page.jupyter.addKernel('python3');
  const bridged = page.bridge.addKernel('tpulab-jax');
  page.bridge.addKernel('python3');
  await manager.refreshRunning();
  await manager.shutdown(bridged.id);
  expect(page.bridge.kernels.has(bridged.id)).toBe(false);
  expect(page.jupyter.kernels.has(own.id)).toBe(true);
  await manager.shutdownAll();
  expect(page.bridge.kernels.size + page.jupyter.kernels.size).toBe(0);
  expect(manager.runningCount).toBe(0);
});

test('settings that Lab changes reach the managers of both backends', async () => {
  const own = await manager.startNew({ name: 'python3' });
  const bridged = await manager.startNew({ name: 'tpulab-jax' });
  manager.commsOverSubshells = CommsOverSubshells.Disabled;
  manager.kernelInfoTimeout = 1234;
  expect(manager.commsOverSubshells).toBe(CommsOverSubshells.Disabled);
  expect(own.commsOverSubshells).toBe(CommsOverSubshells.Disabled);
  expect(bridged.commsOverSubshells).toBe(CommsOverSubshells.Disabled);
  expect(manager.kernelInfoTimeout).toBe(1234);
  expect(manager.isActive).toBe(true);
  expect(manager.serverSettings.baseUrl).toBe(page.jupyter.url);
});

test.each<Fault>(['unavailable', 'html', 'wrongToken', 'hang'])(
  'a kernel of a bridge that is %s is not taken for dead, and is connected again when the bridge is back',
  async fault => {
    if (fault === 'hang') {
      // A list that hangs is awaited to its end.
      await close();
      await open({ readTimeoutMs: 300 });
    }
    const kernel = await manager.startNew({ name: 'tpulab-jax' });
    await until(() => kernel.connectionStatus === 'connected');
    page.bridge.fault = fault;
    page.bridge.cutSockets();
    await until(() => kernel.connectionStatus !== 'connected');
    await manager.refreshRunning();
    page.backends.bridge.suspect();
    await until(() => page.backends.bridge.state !== 'ok' || fault === 'hang');
    expect(kernel.status).not.toBe('dead');
    expect(kernel.isDisposed).toBe(false);
    page.bridge.fault = null;
    page.backends.bridge.reconnectNow();
    await until(() => kernel.connectionStatus === 'connected');
    expect(kernel.isDisposed).toBe(false);
  }
);

test('a kernel that the bridge no longer has is released', async () => {
  const kernel = await manager.startNew({ name: 'tpulab-jax' });
  await manager.refreshRunning();
  page.bridge.kernels.clear();
  await manager.refreshRunning();
  await until(() => kernel.isDisposed);
  expect(manager.runningCount).toBe(0);
});

test('lost connections of the Jupyter server are reported, lost connections of the bridge are not', async () => {
  await manager.ready;
  let failures = 0;
  manager.connectionFailure.connect(() => failures++);
  page.bridge.fault = 'unavailable';
  await manager.refreshRunning();
  await until(() => page.backends.bridge.state !== 'ok');
  expect(failures).toBe(0);
  page.jupyter.fault = 'unavailable';
  await manager.refreshRunning().catch(() => undefined);
  await until(() => failures > 0);
});

test('is ready without the bridge, and shuts down the existing kernels', async () => {
  page.bridge.fault = 'hang';
  page.backends.bridge.suspect();
  const other = newManager();
  await other.ready;
  expect(other.isReady).toBe(true);
  other.dispose();
  other.dispose();
  expect(other.isDisposed).toBe(true);
});

test('sends no requests to a bridge that is known to be unreachable', async () => {
  await manager.ready;
  page.bridge.fault = 'unavailable';
  await manager.refreshRunning();
  await until(() => page.backends.bridge.state === 'down');
  const requested = page.bridge.count('GET /api/kernels');
  await manager.refreshRunning();
  await manager.shutdownAll();
  expect(page.bridge.count('GET /api/kernels')).toBe(requested);
});

test('a connection that has given up is restored as soon as the bridge serves again, and all others stay unchanged', async () => {
  const given = await manager.startNew({ name: 'tpulab-jax' });
  const fine = await manager.startNew({ name: 'tpulab-jax' });
  const own = await manager.startNew({ name: 'python3' });
  await until(() => [given, fine, own].every(kernel => kernel.connectionStatus === 'connected'));
  const untouched: string[] = [];
  fine.connectionStatusChanged.connect((_, status) => untouched.push(status));
  own.connectionStatusChanged.connect((_, status) => untouched.push(status));
  // After this close code a stock connection never tries again automatically.
  page.bridge.socketsOf(given.id).forEach(socket => socket.close(1001));
  await until(() => given.connectionStatus === 'disconnected');
  page.backends.bridge.reconnectNow();
  await until(() => given.connectionStatus === 'connected');
  expect(untouched).toEqual([]);
});

/** Disposed with the page, whose server it shares. */
function withoutJupyter(): Backends {
  return new Backends(null, page.backends.bridge);
}

test('needs no Jupyter server', async () => {
  const bare = withoutJupyter();
  const waits = { ...longTimeouts(), firstListMs: 10 };
  const specClient = new CompositeSpecClient(bare, new SpecCache(null), new LogoLoader(), waits);
  const kernels = new CompositeKernelManager({ backends: bare, specClient });
  const sessions = new CompositeSessionClient(bare, waits);
  await kernels.ready;
  const specs = await specClient.get();
  expect(Object.keys(specs.kernelspecs).sort()).toEqual(['bridge/python3', 'tpulab-jax']);
  expect(specs.default).toBe('tpulab-jax');
  const kernel = await kernels.startNew({ name: 'tpulab-jax' });
  await until(() => kernel.connectionStatus === 'connected');
  const request = { path: 'a.ipynb', name: '', type: 'notebook', kernel: { name: 'bridge/python3' } };
  const session = await sessions.startNew(request);
  expect((await sessions.listRunning()).map(({ id }) => id)).toEqual([session.id]);
  await kernels.refreshRunning();
  expect(kernels.runningCount).toBe(2);
  for (const name of ['python3', undefined]) {
    await expect(kernels.startNew(name === undefined ? {} : { name })).rejects.toMatchObject({
      code: 'jupyter.none'
    });
  }
  await kernels.shutdownAll();
  expect(page.bridge.kernels.size).toBe(0);
  expect(bare.backends).toEqual([bare.bridge]);
  kernels.dispose();
});
