import type { MirroredKernel } from '@tpulab/protocol';
import { expect, test } from 'vitest';
import { remote } from '../testing/remotes.js';
import { whyGone } from './gone.js';

function kernel(given: Partial<MirroredKernel> = {}): MirroredKernel {
  const fields = { kernelId: 'k', name: 'jax', lastSeq: 9, bytes: 100, endedAt: null, documents: [] };
  return { ...fields, state: 'ended', wasShutDown: false, ...given };
}

const connected = remote({ state: 'connected' });

test('a kernel that is not there any more when its machine is has gone with it', () => {
  expect(whyGone(kernel(), connected)).toBe('restarted');
});

test('a kernel that somebody has shut down has not', () => {
  expect(whyGone(kernel({ wasShutDown: true }), connected)).toBeNull();
});

test('nothing is said while the machine is away or has not told of the kernel', () => {
  expect(whyGone(kernel(), remote({ state: 'reconnecting' }))).toBeNull();
  expect(whyGone(kernel({ state: 'behind' }), connected)).toBeNull();
  expect(whyGone(undefined, connected)).toBeNull();
  expect(whyGone(kernel(), null)).toBeNull();
});

test('a machine that was taken back has taken its kernels along', () => {
  expect(whyGone(kernel({ state: 'behind' }), remote({ state: 'preempted' }))).toBe('taken');
});
