/**
 * Handlers run for one connection, one client or one timer. What such a handler throws must end that, and nothing else: thrown out of
 * an event it would end the process. So the guard is put where handlers are registered.
 */
import type { EventEmitter } from 'node:events';

/** Ends what the handler belongs to, and says why. */
export type Failed = (error: unknown) => void;

/** For timers and listeners: nothing is thrown out of it, and a promise that it returns may reject. */
export function guarded<Args extends readonly unknown[]>(
  failed: Failed,
  handler: (...args: Args) => unknown
): (...args: Args) => void {
  return (...args) => {
    try {
      const result = handler(...args);
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  };
}

/** For sockets: the same for every listener of every event, now and later. */
export function guardEvents<Emitter extends EventEmitter>(emitter: Emitter, failed: Failed): Emitter {
  const emit = emitter.emit.bind(emitter) as (...args: unknown[]) => boolean;
  emitter.emit = ((...args: unknown[]) => {
    try {
      return emit(...args);
    } catch (error) {
      failed(error);
      return true;
    }
  }) as Emitter['emit'];
  return emitter;
}
