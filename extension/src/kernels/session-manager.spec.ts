import { afterEach, beforeEach, expect, test } from 'vitest';
import { longTimeouts, Page, until } from '../testing/page.js';
import { CompositeKernelManager } from './kernel-manager.js';
import { CompositeSessionManager } from './managers.js';
import { CompositeSessionClient, type ISessionWaits } from './session-client.js';

let page: Page;
let kernels: CompositeKernelManager;
let sessions: CompositeSessionManager;
let waits: ISessionWaits;
beforeEach(async () => {
  page = await Page.open();
  kernels = new CompositeKernelManager({ backends: page.backends, specClient: undefined });
  waits = longTimeouts();
  const sessionAPIClient = new CompositeSessionClient(page.backends, waits);
  sessions = new CompositeSessionManager({
    kernelManager: kernels,
    serverSettings: sessionAPIClient.serverSettings,
    sessionAPIClient
  });
});
afterEach(async () => {
  sessions.dispose();
  kernels.dispose();
  await page[Symbol.asyncDispose]();
});

const notebook = (name: string, path = 'a.ipynb'): Parameters<typeof sessions.startNew>[0] => ({
  path,
  type: 'notebook',
  name: path,
  kernel: { name }
});

test('a notebook changes its kernel between the backends, both ways, in one session', async () => {
  const session = await sessions.startNew(notebook('python3'));
  const { id } = session;
  const first = session.kernel;
  const changes: (string | undefined)[] = [];
  session.kernelChanged.connect((_, change) => changes.push(change.newValue?.name));

  const bridged = await session.changeKernel({ name: 'tpulab-jax' });
  await until(() => bridged?.connectionStatus === 'connected');
  expect(bridged?.serverSettings.baseUrl).toBe(page.bridge.url);
  expect(first?.isDisposed).toBe(true);

  const own = await session.changeKernel({ name: 'python3' });
  await until(() => own?.connectionStatus === 'connected');
  expect(own?.serverSettings.baseUrl).toBe(page.jupyter.url);

  await sessions.refreshRunning();
  expect([...sessions.running()].map(model => [model.id, model.kernel?.id])).toEqual([[id, own?.id]]);
  expect(changes).toEqual(['tpulab-jax', 'python3']);
  expect(session.isDisposed).toBe(false);
  expect(page.bridge.kernels.size).toBe(0);
});

test('a moved notebook is renamed and shut down like any other', async () => {
  const session = await sessions.startNew(notebook('tpulab-jax'));
  await session.changeKernel({ name: 'python3' });
  await session.setPath('b.ipynb');
  await session.setName('b.ipynb');
  await session.setType('console');
  const moved = [...page.jupyter.sessions.values()][0];
  expect(moved).toMatchObject({ path: 'b.ipynb', name: 'b.ipynb' });
  await session.shutdown();
  expect(page.jupyter.sessions.size).toBe(0);
  expect(session.isDisposed).toBe(true);
});

test('finds sessions of both backends by id and by path, and connects to them', async () => {
  await sessions.ready;
  expect(sessions.isReady).toBe(true);
  const bridged = page.bridge.addSession('b.ipynb', 'python3');
  const model = await sessions.findByPath('b.ipynb');
  expect(model?.id).toBe(bridged.id);
  expect((await sessions.findById(bridged.id))?.kernel?.name).toBe('bridge/python3');
  expect(await sessions.findById('none')).toBeUndefined();
  expect(await sessions.findByPath('none')).toBeUndefined();
  if (model) {
    const connection = sessions.connectTo({ model });
    await until(() => connection.kernel?.connectionStatus === 'connected');
    expect(page.bridge.sockets.size).toBe(1);
  }
});

test('stopIfNeeded ends the only session of a path, wherever it is, and no other', async () => {
  page.bridge.addSession('b.ipynb', 'tpulab-jax');
  page.jupyter.addSession('j.ipynb', 'python3');
  await sessions.refreshRunning();
  await sessions.stopIfNeeded('b.ipynb');
  expect(page.bridge.sessions.size).toBe(0);
  expect(page.jupyter.sessions.size).toBe(1);
  await sessions.stopIfNeeded('unknown.ipynb');
  page.jupyter.fault = 'unavailable';
  await expect(sessions.stopIfNeeded('j.ipynb')).resolves.toBeUndefined();
});

test('ends one session or all of both backends, and notifies of the change', async () => {
  await sessions.ready;
  const one = page.bridge.addSession('b.ipynb', 'tpulab-jax');
  page.bridge.addSession('c.ipynb', 'tpulab-jax');
  page.jupyter.addSession('j.ipynb', 'python3');
  let counts: number[] = [];
  sessions.runningChanged.connect((_, models) => counts.push(models.length));
  await sessions.refreshRunning();
  await sessions.shutdown(one.id);
  await sessions.shutdownAll();
  expect(counts).toEqual([3, 2, 0]);
  counts = [];
  expect(page.bridge.sessions.size + page.jupyter.sessions.size).toBe(0);
});

test('is ready while the bridge hangs, and reports only lost connections of the Jupyter server', async () => {
  await sessions.ready;
  let failures = 0;
  sessions.connectionFailure.connect(() => failures++);
  page.bridge.fault = 'hang';
  waits.bridgeListMs = 100;
  await sessions.refreshRunning();
  expect(failures).toBe(0);
  page.jupyter.fault = 'unavailable';
  await sessions.refreshRunning();
  expect(failures).toBe(1);
});

test('a session on the bridge starts while the Jupyter server is unreachable', async () => {
  await sessions.ready;
  page.jupyter.fault = 'unavailable';
  const session = await sessions.startNew(notebook('tpulab-jax'));
  expect(session.kernel?.name).toBe('tpulab-jax');
});
