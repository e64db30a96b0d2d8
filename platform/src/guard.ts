/**
 * Handlers run for one connection, client or timer. An error in a handler must end only that connection, client or timer; uncaught
 * in an event, it would end the process. So the guard is added where handlers are registered.
 */
import type { EventEmitter } from 'node:events';

/** Ends the connection, client or timer of the handler, and reports why. */
export type Failed = (error: unknown) => void;

/** For timers and listeners: it never throws, and a promise that it returns may reject. */
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
