import type { MirroredKernel } from '@tpulab/protocol';
import { expect, test } from 'vitest';
import { remote } from '../testing/remotes.js';
import { fateOf } from './lost-kernels.js';

function kernel(given: Partial<MirroredKernel> = {}): MirroredKernel {
  const fields = { kernelId: 'k', name: 'jax', lastSeq: 9, bytes: 100, endedAt: null, documents: [] };
  return { ...fields, state: 'ended', wasShutDown: false, ...given };
}

const connected = remote({ state: 'connected' });

test('a kernel that is not there any more when its machine is has gone with it', () => {
  expect(fateOf(kernel(), connected)).toBe('gone');
});

test('so has one that its machine knows nothing of, because it was created again', () => {
  expect(fateOf(kernel({ state: 'unknown' }), connected)).toBe('gone');
});

test('a kernel that somebody has shut down has not', () => {
  expect(fateOf(kernel({ wasShutDown: true }), connected)).toBeNull();
});

test('a kernel whose journal goes on is there', () => {
  expect(fateOf(kernel({ state: 'following' }), connected)).toBe('kept');
});

test('nothing is said while the machine is away or has not told of the kernel', () => {
  expect(fateOf(kernel(), remote({ state: 'reconnecting' }))).toBeNull();
  expect(fateOf(kernel({ state: 'behind' }), connected)).toBeNull();
  expect(fateOf(undefined, connected)).toBeNull();
  expect(fateOf(kernel(), null)).toBeNull();
});

test('a machine that was taken back has taken its kernels along', () => {
  expect(fateOf(kernel({ state: 'behind' }), remote({ state: 'preempted' }))).toBe('taken');
});
