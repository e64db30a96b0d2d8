/** Waits that a signal ends. None of them rejects. */
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises';

/** Resolves after the time, or when it is no longer to be waited for. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await wait(ms, undefined, { signal }).catch(() => undefined);
}

/**
 * A signal that fires with `signal`, or after the time. For signals that live long: Node collects a time-out that only `AbortSignal.any`
 * refers to, and then it never fires.
 */
export function deadline(ms: number, signal?: AbortSignal): { readonly signal: AbortSignal } & Disposable {
  const controller = new AbortController();
  const end = (): void => controller.abort(signal?.reason);
  const timer = setTimeout(
    () => controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError')),
    ms
  );
  if (signal?.aborted) end();
  else signal?.addEventListener('abort', end, { once: true });
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
    }
  };
}

/** @param until ends the wait, which then never resolves: a signal that lives long would collect its listeners */
export function aborted(signal: AbortSignal, until?: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  const how = { once: true, ...(until && { signal: until }) };
  return new Promise(resolve => signal.addEventListener('abort', () => resolve(), how));
}

/** The result; undefined when it is no longer to be waited for. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  const over = new AbortController();
  try {
    return (await Promise.race([work, aborted(signal, over.signal)])) ?? undefined;
  } finally {
    over.abort();
  }
}

/** Work, a piece after the other. A piece that fails is nothing to the next. */
export class InTurn {
  #last: Promise<unknown> = Promise.resolve();

  /** Resolves when all that was given so far is done. */
  get settled(): Promise<unknown> {
    return this.#last;
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }
}

/** Long enough to get on, and short enough that others on the event loop do not notice. */
const TURN_MS = 15;

/** For work of unknown length: lets others on the event loop in every few milliseconds. */
export class Turns {
  #since = performance.now();

  give(): Promise<void> | undefined {
    return performance.now() - this.#since < TURN_MS ? undefined : this.#give();
  }

  async #give(): Promise<void> {
    await turn();
    this.#since = performance.now();
  }
}
