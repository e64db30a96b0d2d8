/** Waits that a signal ends. None of them rejects. */
import { setTimeout as wait } from 'node:timers/promises';

/** Resolves after the time, or when it is no longer to be waited for. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await wait(ms, undefined, { signal }).catch(() => undefined);
}

export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise(resolve => signal.addEventListener('abort', () => resolve(), { once: true }));
}
