import { expect, it } from 'vitest';
import { patternsOf } from './listing.js';

it.each([
  ['*.ckpt', 'a/b.ckpt', false, true],
  ['*.ckpt', 'a/b.ckpt.txt', false, false],
  ['build/', 'a/build', true, true],
  ['build/', 'a/build', false, false],
  ['build/', 'a/build/x/y.o', false, true],
  ['/data', 'data', true, true],
  ['/data', 'a/data', true, false],
  ['logs/*.txt', 'run/logs/a.txt', false, true],
  ['logs/*.txt', 'run/logs/a/b.txt', false, false],
  ['logs/**', 'run/logs/a/b.txt', false, true],
  ['tmp/***', 'tmp', true, true],
  ['a.c', 'abc', false, false],
  ['[!a]x', 'bx', false, true],
  ['[!a]x', 'ax', false, false],
  ['what?', 'what1', false, true],
  ['a\\*b', 'a*b', false, true],
  ['(x)+', '(x)+', false, true]
] as const)('%s and %s', (pattern, path, isFolder, isOut) => {
  expect(patternsOf([], [pattern])(path, isFolder)).toBe(isOut);
});

it('applies includes before excludes', () => {
  const out = patternsOf(['best.ckpt'], ['*.ckpt']);
  expect([out('best.ckpt', false), out('last.ckpt', false)]).toEqual([false, true]);
});
