import { expect, test } from 'vitest';
import { momentText } from './moment.js';

test('a moment of today is a time of day, any other has its date', () => {
  const at = new Date(2026, 10, 21, 14, 5, 9).getTime();
  expect(momentText(at, at + 60_000)).toBe('14:05:09');
  expect(momentText(at, at + 24 * 3_600_000)).toBe('2026-11-21 14:05:09');
});
