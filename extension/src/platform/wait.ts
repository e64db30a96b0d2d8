/** Waits that end early: with a signal, a condition, or after a time. */
import type { ISignal } from '@lumino/signaling';

/** A pause that ends early with its signal. */
export function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });
}

/** Bounded waits: a promise's value, or null when it has not been fulfilled within the time. Its rejection passes through. */
export function within<T>(promise: Promise<T>, timeoutMs: number): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(null), timeoutMs);
    promise.then(
      value => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    );
  });
}

/** Resolves when `test` is true, evaluated now and whenever one of `signals` is emitted. Rejects when `abort` does. */
export function whenever(
  signals: readonly ISignal<unknown, unknown>[],
  test: () => boolean,
  abort: AbortSignal
): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (done: () => void): void => {
      signals.forEach(signal => signal.disconnect(check));
      abort.removeEventListener('abort', onAbort);
      done();
    };
    const check = (): void => {
      if (test()) finish(resolve);
    };
    const onAbort = (): void => finish(() => reject(abort.reason as Error));
    if (abort.aborted) {
      onAbort();
      return;
    }
    signals.forEach(signal => signal.connect(check));
    abort.addEventListener('abort', onAbort);
    check();
  });
}

/** The same, at most for `timeoutMs`. Never rejects. */
export async function until(
  signals: readonly ISignal<unknown, unknown>[],
  test: () => boolean,
  timeoutMs: number
): Promise<void> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), timeoutMs);
  await whenever(signals, test, over.signal).catch(() => undefined);
  clearTimeout(timer);
}
