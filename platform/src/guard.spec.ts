import { EventEmitter } from 'node:events';
import { expect, it } from 'vitest';
import { guarded, guardEvents } from './guard.js';

const failing = (): never => {
  throw new Error('of a handler');
};

it.each([
  ['throws', failing],
  ['rejects', () => Promise.reject(new Error('of a handler'))]
] as const)('a handler that %s ends its connection, client or timer', async (_how, handler) => {
  const ended = new Promise(resolve => guarded(resolve, handler)());
  expect(await ended).toMatchObject({ message: 'of a handler' });
});

it('a failing listener of an emitter is reported, and the other listeners receive the event', () => {
  const emitter = new EventEmitter();
  const seen: unknown[] = [];
  guardEvents(emitter, error => seen.push((error as Error).message));
  emitter.on('data', value => seen.push(value)).on('data', failing);
  expect(emitter.emit('data', 1)).toBe(true);
  expect(emitter.emit('error', new Error('nobody listens'))).toBe(true);
  expect(seen).toEqual([1, 'of a handler', 'nobody listens']);
});
