import { expect, test } from 'vitest';
import { agoText, momentText } from './moment.js';

test('a moment of today is a time of day, any other has its date', () => {
  const at = new Date(2026, 10, 21, 14, 5, 9).getTime();
  expect(momentText(at, at + 60_000)).toBe('14:05:09');
  expect(momentText(at, at + 24 * 3_600_000)).toBe('2026-11-21 14:05:09');
});

test('the age of an event is given in one unit, and is never negative', () => {
  const ago = (ms: number): string => agoText(1e12 - ms, 1e12);
  expect([-5_000, 59_999, 60_000, 7_200_000, 86_400_000, 3 * 86_400_000].map(ago)).toEqual([
    'now',
    'now',
    '1 min ago',
    '2 h ago',
    '1 day ago',
    '3 days ago'
  ]);
});
