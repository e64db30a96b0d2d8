import fc from 'fast-check';
import { expect, test } from 'vitest';
import { bridgeSpecName, labSpecName } from './spec-names.js';

test('keeps names of our environments and prefixes all others', () => {
  expect(labSpecName('tpulab-jax')).toBe('tpulab-jax');
  expect(labSpecName('python3')).toBe('bridge/python3');
  expect(bridgeSpecName('python3')).toBeNull();
});

test('every name of the bridge comes back as it was', () => {
  fc.assert(fc.property(fc.string(), name => bridgeSpecName(labSpecName(name)) === name));
});
