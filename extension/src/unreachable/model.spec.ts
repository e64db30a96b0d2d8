import { expect, test } from 'vitest';
import { remote } from '../testing/remotes.js';
import { unreachableRemote } from './model.js';

const known = (name: string) => (name === 'my-tpu' ? remote() : null);

test('a notebook of a remote that is unknown or down is distinguished from all others', () => {
  expect(unreachableRemote('python3', known, true)).toBeNull();
  expect(unreachableRemote('tpulab-jax', known, true)).toBeNull();
  expect(unreachableRemote('remote/my-tpu/tpulab-jax', known, true)).toEqual({ name: 'my-tpu', why: 'down' });
  expect(unreachableRemote('remote/other/tpulab-jax', known, true)).toEqual({
    name: 'other',
    why: 'unknown'
  });
  expect(
    unreachableRemote('remote/my-tpu/tpulab-jax', () => remote({ state: 'connected' }), true)
  ).toBeNull();
});

test('while the hub has not listed its remotes nothing is reported of them', () => {
  expect(unreachableRemote('remote/other/tpulab-jax', () => null, false)).toBeNull();
});
