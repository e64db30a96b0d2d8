import { afterEach, beforeEach, expect, test } from 'vitest';
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

test('a known machine gets the environment that is asked for, and keeps its own where none is', async () => {
  const source = { kind: 'ssh', destination: 'ada@vm' } as const;
  expect(await actions.connectTo(source, 'torch-xla')).toBe('my-tpu');
  expect(await actions.connectTo(source, null)).toBe('my-tpu');
  const path = '/bridge/v1/remotes/my-tpu/connect';
  expect(page.bridge.asked).toEqual([path, path]);
  expect(page.bridge.wishes).toEqual([{ environment: 'torch-xla' }, {}]);
});

test('somebody who insists takes a machine over from another build', async () => {
  expect(await actions.connect('my-tpu', { takeOver: true })).toBe(true);
  expect(page.bridge.wishes).toEqual([{ takeOver: true }]);
});
