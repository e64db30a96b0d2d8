/** Waits that a signal can end. None of them rejects. */
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises';

/** Resolves after the time, or when the signal fires. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await wait(ms, undefined, { signal }).catch(() => undefined);
}

/**
 * A signal that fires with `signal`, or after the time. For long-lived signals: Node collects a timeout that only `AbortSignal.any`
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

/** @param until ends the wait, which then never resolves: a long-lived signal would otherwise collect listeners */
export function aborted(signal: AbortSignal, until?: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  const how = { once: true, ...(until && { signal: until }) };
  return new Promise(resolve => signal.addEventListener('abort', () => resolve(), how));
}

/** The result; undefined when the signal fires first. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  const over = new AbortController();
  try {
    return (await Promise.race([work, aborted(signal, over.signal)])) ?? undefined;
  } finally {
    over.abort();
  }
}

/** Tasks that run one after the other. A task that fails does not affect the next. */
export class InTurn {
  #last: Promise<unknown> = Promise.resolve();

  /** Resolves when all tasks so far are done. */
  get settled(): Promise<unknown> {
    return this.#last;
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }
}

/** Long enough for progress, and short enough that other tasks on the event loop are not delayed noticeably. */
const TURN_MS = 15;

/** For work of unknown length: yields to other tasks on the event loop every few milliseconds. */
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
