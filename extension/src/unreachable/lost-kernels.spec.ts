import type { MirroredKernel } from '@tpulab/protocol';
import { expect, test } from 'vitest';
import { remote } from '../testing/remotes.js';
import { fateOf } from './model.js';

function kernel(given: Partial<MirroredKernel> = {}): MirroredKernel {
  const fields = { kernelId: 'k', name: 'jax', lastSeq: 9, bytes: 100, endedAt: null, documents: [] };
  return { ...fields, state: 'ended', wasShutDown: false, ...given };
}

const connected = remote({ state: 'connected' });

test('a kernel that no longer exists on a connected machine was lost with it', () => {
  expect(fateOf(kernel(), connected)).toBe('gone');
});

test('a kernel that its recreated machine does not know was lost too', () => {
  expect(fateOf(kernel({ state: 'unknown' }), connected)).toBe('gone');
});

test('a kernel that the user has shut down was not lost', () => {
  expect(fateOf(kernel({ wasShutDown: true }), connected)).toBeNull();
});

test('a kernel whose journal continues exists', () => {
  expect(fateOf(kernel({ state: 'following' }), connected)).toBe('kept');
});

test('nothing is reported while the machine is unreachable or has not reported the kernel', () => {
  expect(fateOf(kernel(), remote({ state: 'reconnecting' }))).toBeNull();
  expect(fateOf(kernel({ state: 'behind' }), connected)).toBeNull();
  expect(fateOf(undefined, connected)).toBeNull();
  expect(fateOf(kernel(), null)).toBeNull();
});

test('the kernels of a preempted machine are lost', () => {
  expect(fateOf(kernel({ state: 'behind' }), remote({ state: 'preempted' }))).toBe('taken');
});
