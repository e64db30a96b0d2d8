/** Waits for the end of a process that is not a child of ours, which nobody reports. */
import { setTimeout as delay } from 'node:timers/promises';
import { canSignal, isSameProcess } from './process-identity.js';

/** How soon the end is noticed. */
const LOOK_MS = 200;
/** How often it is made sure that the pid has not been given to another process, where that takes a program of its own. */
const IDENTIFY_MS = 10_000;

/** Resolves when the process that had `start` under this pid has ended. */
export async function processEnd(pid: number, start: string, identifyMs = IDENTIFY_MS): Promise<void> {
  const hasProc = process.platform === 'linux';
  for (let identifiedAt = -Infinity; ;) {
    const isDue = hasProc || performance.now() - identifiedAt >= identifyMs;
    if (isDue) {
      if (!(await isSameProcess(pid, start).catch(() => true))) {
        return;
      }
      identifiedAt = performance.now();
    } else if (!canSignal(pid)) {
      return;
    }
    await delay(LOOK_MS);
  }
}
