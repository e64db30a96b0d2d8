import { nullTranslator } from '@jupyterlab/translation';
import { expect, test } from 'vitest';
import { hostsText } from './hosts.js';

const trans = nullTranslator.load('jupyterlab_tpulab');

test('hosts are named one by one and in ranges', () => {
  expect(hostsText([2], trans)).toBe('host 2');
  expect(hostsText([0, 1, 2, 5], trans)).toBe('hosts 0-2, 5');
});
