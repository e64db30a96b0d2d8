import { type CloudReach, reachedBy, type RemoteSource } from '@tpulab/protocol';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Page, until } from '../testing/page.js';
import { remote } from '../testing/remotes.js';
import { RemoteActions } from './actions.js';

let page: Page;
let actions: RemoteActions;

beforeEach(async () => {
  page = await Page.open();
  page.bridge.remotes = [remote({ state: 'connected' })];
  const { remotes } = page.backends;
  remotes.apply({ remote: remote({ state: 'connected' }), removed: false });
  await until(() => remotes.get('my-tpu') !== null);
  actions = new RemoteActions(remotes);
});
afterEach(() => page[Symbol.asyncDispose]());

test('a known machine gets the requested environment, keeps its own without a request, and an ssh host ignores a cloud route', async () => {
  const source = { kind: 'ssh', destination: 'ada@vm' } as const;
  expect(await actions.connectTo(source, { environment: 'torch-xla', reach: null, install: null })).toBe(
    'my-tpu'
  );
  expect(await actions.connectTo(source, { environment: null, reach: 'iap', install: null })).toBe('my-tpu');
  const path = '/bridge/v1/machines/my-tpu/connect';
  expect(page.bridge.requested).toEqual([path, path]);
  expect(page.bridge.bodies).toEqual([{ environment: 'torch-xla' }, {}]);
});

test('a runtime that is being ended is named until it has ended, or the failure is reported', async () => {
  const seen: (string | null)[] = [];
  actions.changed.connect(({ ending }) => seen.push(ending));
  const ended = actions.disconnect('my-tpu', true);
  expect(actions.ending).toBe('my-tpu');
  await ended;
  expect(actions.ending).toBeNull();
  expect([seen[0], seen.at(-1)]).toEqual(['my-tpu', null]);
  seen.length = 0;
  await actions.disconnect('my-tpu');
  expect(seen).not.toContain('my-tpu');
});

test('a user who insists claims a machine from another build', async () => {
  expect(await actions.connect('my-tpu', { takeOver: true })).toBe(true);
  expect(page.bridge.bodies).toEqual([{ takeOver: true }]);
});

test('a Google Cloud machine is reached by the chosen route from then on, and repeating the choice changes nothing', async () => {
  const source = { kind: 'gcloud', product: 'tpu-vm', name: 'far', zone: 'us-east5-b' } as const;
  const { remotes } = page.backends;
  const choose = (reach: CloudReach | null) =>
    actions.connectTo(source, { environment: null, reach, install: null });
  const known = (given: RemoteSource) =>
    remotes.apply({ remote: remote({ name: 'far', source: given }), removed: false });
  known(source);
  expect(await choose('iap')).toBe('far');
  known(reachedBy(source, 'iap'));
  await choose('iap');
  await choose(null);
  await choose('external');
  expect(page.bridge.bodies).toEqual([{ reach: 'iap' }, {}, {}, { reach: 'external' }]);
});

test('a new machine is added with its route', async () => {
  const source = { kind: 'gcloud', product: 'instance', name: 'new', zone: 'us-east5-b' } as const;
  const add = vi.spyOn(page.backends.remotes.api, 'add').mockResolvedValue(remote({ name: 'new', source }));
  for (const reach of ['iap', 'internal', null] as const) {
    page.backends.remotes.apply({ remote: remote({ name: 'new', source }), removed: true });
    await actions.connectTo(source, { environment: null, reach, install: null });
  }
  expect(add.mock.calls.map(([request]) => request.source)).toEqual([
    { ...source, tunnelThroughIap: true },
    { ...source, internalIp: true },
    source
  ]);
});
