import { expect, test } from 'vitest';
import { hostsText } from './hosts.js';

test('hosts are named one by one and in ranges', () => {
  expect(hostsText([2])).toBe('host 2');
  expect(hostsText([0, 1, 2, 5])).toBe('hosts 0-2, 5');
});
