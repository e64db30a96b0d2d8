import { ServerConnection } from '@jupyterlab/services';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Fault } from '../testing/fake-jupyter-server.js';
import { longTimeouts, Page, until } from '../testing/page.js';
import { CompositeSessionClient, type ISessionWaits } from './session-client.js';

let page: Page;
let client: CompositeSessionClient;
let waits: ISessionWaits;
beforeEach(async () => {
  page = await Page.open();
  waits = longTimeouts();
  client = new CompositeSessionClient(page.backends, waits);
});
afterEach(() => page[Symbol.asyncDispose]());

const notebook = (name: string, path = 'a.ipynb'): Parameters<typeof client.startNew>[0] => ({
  path,
  type: 'notebook',
  name: path,
  kernel: { name }
});

test('lists the sessions of both backends under the names of the page', async () => {
  page.jupyter.addSession('j.ipynb', 'python3');
  page.bridge.addSession('b.ipynb', 'python3');
  page.bridge.addSession('t.ipynb', 'tpulab-jax');
  const names = (await client.listRunning()).map(model => [model.path, model.kernel?.name]);
  expect(names).toEqual([
    ['j.ipynb', 'python3'],
    ['b.ipynb', 'bridge/python3'],
    ['t.ipynb', 'tpulab-jax']
  ]);
});

test.each([
  ['python3', 'jupyter', 'python3'],
  ['bridge/python3', 'bridge', 'python3'],
  ['tpulab-jax', 'bridge', 'tpulab-jax']
] as const)('starts %s at the %s', async (labName, place, backendName) => {
  const model = await client.startNew(notebook(labName));
  expect(model.kernel?.name).toBe(labName);
  expect([...page[place].sessions.values()].map(session => session.kernel.name)).toEqual([backendName]);
  expect(page.backends.backendOf(model.kernel?.id ?? '')?.id).toBe(place);
});

test.each([
  ['python3', 'jupyter', 'tpulab-jax', 'bridge'],
  ['bridge/python3', 'bridge', 'python3', 'jupyter']
] as const)('moves a notebook from %s at the %s to %s at the %s', async (oldName, from, newName, to) => {
  const before = await client.startNew(notebook(oldName));
  const after = await client.update({ id: before.id, kernel: { name: newName } });
  expect(after.id).toBe(before.id);
  expect(after.kernel?.name).toBe(newName);
  expect(page[from].sessions.size).toBe(0);
  expect(page[from].kernels.size).toBe(0);
  expect(page[to].sessions.size).toBe(1);
  expect((await client.listRunning()).map(model => model.id)).toEqual([before.id]);
  expect((await client.getModel(before.id)).kernel?.id).toBe(after.kernel?.id);
});

test('moves a session away and back, renames and ends it, by the id that Lab knows', async () => {
  const { id } = await client.startNew(notebook('python3'));
  await client.update({ id, kernel: { name: 'tpulab-jax' } });
  await client.update({ id, path: 'moved/b.ipynb', name: 'b.ipynb' });
  expect([...page.bridge.sessions.values()][0]?.path).toBe('moved/b.ipynb');
  await client.update({ id, kernel: { name: 'python3' } });
  expect([...page.jupyter.sessions.values()][0]?.path).toBe('moved/b.ipynb');
  await client.shutdown(id);
  expect(page.jupyter.sessions.size).toBe(0);
  expect(await client.listRunning()).toEqual([]);
});

test('changes a kernel within one backend by a request to that backend alone', async () => {
  const { id } = await client.startNew(notebook('bridge/python3'));
  const model = await client.update({ id, kernel: { name: 'tpulab-jax' } });
  expect(model.kernel?.name).toBe('tpulab-jax');
  expect(page.bridge.sessions.has(id)).toBe(true);
  expect(page.jupyter.count('POST /api/sessions')).toBe(0);
});

test('attaches a notebook to a running kernel of the other backend by its id', async () => {
  const kernel = page.bridge.addKernel('tpulab-jax');
  page.backends.routes.learnKernel('bridge', kernel);
  const { id } = await client.startNew(notebook('python3'));
  const model = await client.update({ id, kernel: { id: kernel.id } });
  expect(model.kernel?.id).toBe(kernel.id);
  expect(page.bridge.kernels.size).toBe(1);
});

test('a session that the other backend still has for the path gets the kernel that was chosen', async () => {
  page.bridge.addSession('a.ipynb', 'python3');
  const { id } = await client.startNew(notebook('python3'));
  const model = await client.update({ id, kernel: { name: 'tpulab-jax' } });
  expect(model.kernel?.name).toBe('tpulab-jax');
  expect(page.bridge.sessions.size).toBe(1);
});

test('a kernel that cannot be started at the other backend leaves the notebook where it was', async () => {
  const { id } = await client.startNew(notebook('python3'));
  page.bridge.faultAt.set('/api/sessions', 'unavailable');
  await expect(client.update({ id, kernel: { name: 'tpulab-jax' } })).rejects.toThrow();
  expect(page.jupyter.sessions.has(id)).toBe(true);
  expect((await client.listRunning())[0]?.kernel?.name).toBe('python3');
});

test('an old session that cannot be ended stays hidden and is ended when its backend is back', async () => {
  const { id } = await client.startNew(notebook('tpulab-jax'));
  page.bridge.fault = 'unavailable';
  const model = await client.update({ id, kernel: { name: 'python3' } });
  expect(model.kernel?.name).toBe('python3');
  expect(page.bridge.sessions.size).toBe(1);
  await until(() => page.backends.bridge.state === 'down');
  page.bridge.fault = null;
  await until(() => page.bridge.sessions.size === 0);
  expect((await client.listRunning()).map(item => item.kernel?.name)).toEqual(['python3']);
});

test('a list in flight while a kernel moves does not bring the old kernel back', async () => {
  const { id } = await client.startNew(notebook('python3'));
  const stale = [...page.jupyter.sessions.values()].map(session => ({ ...session }));
  let release = (): void => undefined;
  const held = new Promise<void>(resolve => (release = resolve));
  page.jupyter.beforeAnswer = (method, path) =>
    method === 'GET' && path === '/api/sessions' ? held : undefined;
  const poll = client.listRunning();
  await until(() => page.jupyter.count('GET /api/sessions') === 1);
  await client.update({ id, kernel: { name: 'tpulab-jax' } });
  // The server's answer if it had read its list before the change.
  stale.forEach(session => page.jupyter.sessions.set(session.id, session));
  release();
  expect((await poll).map(model => [model.id, model.kernel?.name])).toEqual([[id, 'tpulab-jax']]);
});

test.each<Fault>(['hang', 'stall', 'html', 'unavailable', 'wrongToken'])(
  'a bridge that is %s keeps its last list and hides nothing of the Jupyter server',
  async fault => {
    page.bridge.addSession('b.ipynb', 'tpulab-jax');
    await client.listRunning();
    page.bridge.fault = fault;
    if (fault === 'hang' || fault === 'stall') {
      waits.bridgeListMs = 100;
    }
    page.jupyter.addSession('new.ipynb', 'python3');
    let failures = 0;
    client.connectionFailure.connect(() => failures++);
    expect((await client.listRunning()).map(model => model.path)).toEqual(['new.ipynb', 'b.ipynb']);
    expect(failures).toBe(0);
    await until(() => page.backends.bridge.state !== 'ok' || fault === 'hang' || fault === 'stall');
  }
);

test('an unreachable Jupyter server retains its last list, hides no bridge session, and is reported', async () => {
  page.jupyter.addSession('j.ipynb', 'python3');
  await client.listRunning();
  page.jupyter.fault = 'unavailable';
  page.bridge.addSession('b.ipynb', 'tpulab-jax');
  const failures: Error[] = [];
  client.connectionFailure.connect((_, error) => failures.push(error));
  expect((await client.listRunning()).map(model => model.path)).toEqual(['j.ipynb', 'b.ipynb']);
  expect(failures).toHaveLength(1);
  expect(page.backends.jupyter?.state).toBe('down');
  page.jupyter.fault = null;
  await client.listRunning();
  expect(page.backends.jupyter?.state).toBe('ok');
});

test('the first list fails as in a plain JupyterLab when the Jupyter server is unreachable', async () => {
  page.jupyter.fault = 'unavailable';
  await expect(client.listRunning()).rejects.toThrow(ServerConnection.ResponseError);
});

test('the first list waits a moment for a bridge that has not answered yet, and no longer', async () => {
  const other = new Page(page.jupyter, page.bridge);
  page.bridge.addSession('b.ipynb', 'tpulab-jax');
  const patient = new CompositeSessionClient(other.backends, waits).listRunning();
  other.backends.bridge.start();
  expect((await patient).map(model => model.path)).toEqual(['b.ipynb']);
  other.backends.dispose();

  const hanging = new Page(page.jupyter, page.bridge);
  page.bridge.fault = 'hang';
  hanging.backends.bridge.start();
  const impatient = new CompositeSessionClient(hanging.backends, { ...waits, firstListMs: 10 });
  expect(await impatient.listRunning()).toEqual([]);
  hanging.backends.dispose();
});
