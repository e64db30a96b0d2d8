import { expect, it } from 'vitest';
import { sparkPath } from './spark-path.js';

it('goes from the lowest to the highest value, and closes its area along the bottom', () => {
  expect(sparkPath([1, 3, 2], 100, 24)).toEqual({
    line: 'M0 22L50 2L100 12',
    area: 'M0 22L50 2L100 12L100 24L0 24Z'
  });
});

it('has a gap where a value is not finite', () => {
  expect(sparkPath([0, 1, Number.NaN, 1, 0], 100, 24).line).toBe('M0 22L25 2M75 2L100 22');
});

it('draws nothing for fewer than two values, and few points for many', () => {
  expect(sparkPath([1], 100, 24).line).toBe('');
  const { line } = sparkPath(
    Array.from({ length: 4_096 }, (_, at) => at),
    100,
    24
  );
  expect(line.split('L').length).toBeLessThanOrEqual(120);
  expect(line.endsWith('100 2')).toBe(true);
});
