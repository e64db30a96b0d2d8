/** Waits that a signal ends. None of them rejects. */
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises';

/** Resolves after the time, or when it is no longer to be waited for. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await wait(ms, undefined, { signal }).catch(() => undefined);
}

export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise(resolve => signal.addEventListener('abort', () => resolve(), { once: true }));
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
