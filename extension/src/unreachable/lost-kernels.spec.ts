import type { MirroredKernel } from '@tpulab/protocol';
import { expect, test } from 'vitest';
import { remote } from '../testing/remotes.js';
import { outcomeOf } from './model.js';

function kernel(given: Partial<MirroredKernel> = {}): MirroredKernel {
  const fields = { kernelId: 'k', name: 'jax', lastSeq: 9, bytes: 100, endedAt: null, documents: [] };
  return { ...fields, state: 'ended', wasShutDown: false, ...given };
}

const connected = remote({ state: 'connected' });

test('a kernel that no longer exists on a connected machine was lost with it', () => {
  expect(outcomeOf(kernel(), connected)).toBe('lost');
});

test('a kernel that its recreated machine does not know was lost too', () => {
  expect(outcomeOf(kernel({ state: 'unknown' }), connected)).toBe('lost');
});

test('a kernel that the user has shut down was not lost', () => {
  expect(outcomeOf(kernel({ wasShutDown: true }), connected)).toBeNull();
});

test('a kernel whose journal continues exists', () => {
  expect(outcomeOf(kernel({ state: 'following' }), connected)).toBe('available');
});

test('nothing is reported while the machine is unreachable or has not reported the kernel', () => {
  expect(outcomeOf(kernel(), remote({ state: 'reconnecting' }))).toBeNull();
  expect(outcomeOf(kernel({ state: 'behind' }), connected)).toBeNull();
  expect(outcomeOf(undefined, connected)).toBeNull();
  expect(outcomeOf(kernel(), null)).toBeNull();
});

test('the kernels of a preempted machine are lost', () => {
  expect(outcomeOf(kernel({ state: 'behind' }), remote({ state: 'preempted' }))).toBe('preempted');
});
