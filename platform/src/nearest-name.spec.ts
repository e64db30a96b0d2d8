import { describe, expect, it } from 'vitest';
import { editDistance, nearestName } from './nearest-name.js';

describe('the nearest name', () => {
  const names = ['jax', 'torch-tpu', 'torch-xla'];

  it.each([
    ['jaxx', 'jax'],
    ['JAX', 'jax'],
    ['jxa', 'jax'],
    ['torch-tup', 'torch-tpu'],
    ['torch_xla', 'torch-xla'],
    ['torch', 'torch-tpu']
  ])('of "%s" is "%s"', (typed, expected) => {
    expect(nearestName(typed, names)).toBe(expected);
  });

  it('is null if no name is near', () => {
    expect(nearestName('tensorflow', names)).toBeNull();
    expect(nearestName('jax', [])).toBeNull();
  });

  it('counts a swap of neighbours as one step', () => {
    expect(editDistance('abcd', 'acbd')).toBe(1);
    expect(editDistance('kitten', 'sitting')).toBe(3);
    expect(editDistance('', 'abc')).toBe(3);
  });
});
