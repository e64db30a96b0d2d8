import type { KernelSpec } from '@jupyterlab/services';
import { expect, test } from 'vitest';
import { bridgeCards, isDouble } from './cards.js';

const isBridgeSpec = (name: string): boolean => name.startsWith('tpulab-') || name.startsWith('bridge/');
const spec = (name: string, metadata = {}): KernelSpec.ISpecModel => ({
  name,
  display_name: `Spec ${name}`,
  language: 'python',
  argv: [],
  resources: {},
  metadata
});

test('makes a card for each kernelspec of the bridge, our own environments first', () => {
  const specs = {
    default: 'python3',
    kernelspecs: {
      python3: spec('python3'),
      'bridge/python3': spec('bridge/python3', { tpulab: { bestEffort: true } }),
      'tpulab-jax': spec('tpulab-jax', { tpulab: { environment: 'jax' } }),
      gone: undefined
    }
  };
  expect(bridgeCards(specs, isBridgeSpec)).toEqual([
    { kernelName: 'bridge/python3', rank: 1 },
    { kernelName: 'tpulab-jax', rank: 0 }
  ]);
  expect(bridgeCards(null, isBridgeSpec)).toEqual([]);
});

test('hides only the stock notebook card of a kernelspec that has a card of ours', () => {
  const item = (command: string, args: Record<string, unknown>): boolean =>
    isDouble({ command, args }, isBridgeSpec);
  expect(item('notebook:create-new', { kernelName: 'tpulab-jax' })).toBe(true);
  expect(item('notebook:create-new', { kernelName: 'python3' })).toBe(false);
  expect(item('tpulab:create-notebook', { kernelName: 'tpulab-jax' })).toBe(false);
  expect(item('console:create', { kernelPreference: { name: 'tpulab-jax' } })).toBe(false);
  expect(isDouble({ command: 'notebook:create-new' }, isBridgeSpec)).toBe(false);
});
