import { expect, test } from 'vitest';
import { isSliceKernel, labSpecName, remoteOfPlace, remotePlace, splitSpecName } from './spec-names.js';

test.each([
  ['jupyter', 'python3', 'python3'],
  ['bridge', 'tpulab-jax', 'tpulab-jax'],
  ['bridge', 'python3', 'bridge/python3'],
  ['remote/my-tpu', 'tpulab-jax', 'remote/my-tpu/tpulab-jax'],
  ['remote/v5.lab', 'python3', 'remote/v5.lab/python3']
])('%s has %s, which the page calls %s', (place, name, labName) => {
  expect(labSpecName(place, name)).toBe(labName);
  expect(splitSpecName(labName)).toEqual({ place, name });
});

test('a name that only resembles a remote name belongs to the Jupyter server', () => {
  expect(splitSpecName('remote')).toEqual({ place: 'jupyter', name: 'remote' });
  expect(splitSpecName('remote/x')).toEqual({ place: 'jupyter', name: 'remote/x' });
  expect(splitSpecName('remote//x')).toEqual({ place: 'jupyter', name: 'remote//x' });
});

test('places of remotes convert both ways', () => {
  expect(remoteOfPlace(remotePlace('my-tpu'))).toBe('my-tpu');
  expect(remoteOfPlace('bridge')).toBeNull();
});

test('slice kernels are recognised by name, here and on a remote', () => {
  expect(isSliceKernel('tpulab-slice-try')).toBe(true);
  expect(isSliceKernel('remote/vm/tpulab-slice-my-tpu')).toBe(true);
  expect(isSliceKernel('tpulab-jax')).toBe(false);
  expect(isSliceKernel(undefined)).toBe(false);
});
