/**
 * What no other guard has caught. Whatever it belonged to has ended; the gateway goes on, for kernels and their outputs are not in it. Only
 * where one such fault follows another it ends, and notes when: after the third end in a minute the next gateway starts without its remotes,
 * whose answers are the likeliest cause.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Logger } from 'pino';

/** Faults in a minute that a gateway outlives. */
const MOST_FAULTS = 10;
const ENDS = 3;
const WITHIN_MS = 60_000;
/** A loop that was long ago is over. */
const RECENT_MS = 10 * 60_000;

/** @param end called where the gateway cannot go on */
export function guardProcess(stateDir: string, log: Logger, end: () => void): Disposable {
  const faults: number[] = [];
  const onFault = (err: unknown, origin: string): void => {
    log.error({ err, origin }, 'an unexpected error was caught; the server continues');
    faults.push(performance.now());
    if (faults.length > MOST_FAULTS) faults.shift();
    const [oldest = 0] = faults;
    if (faults.length < MOST_FAULTS || performance.now() - oldest > WITHIN_MS) return;
    log.fatal({ err, origin }, 'server failed; kernels keep running, and the next server finds them');
    noteEnd(stateDir);
    end();
  };
  const onRejection = (err: unknown): void => onFault(err, 'unhandledRejection');
  process.on('uncaughtException', onFault).on('unhandledRejection', onRejection);
  return {
    [Symbol.dispose]: () =>
      void process.off('uncaughtException', onFault).off('unhandledRejection', onRejection)
  };
}

const fileIn = (stateDir: string): string => path.join(stateDir, 'fatal-ends.json');

function endsIn(stateDir: string): number[] {
  try {
    const value: unknown = JSON.parse(readFileSync(fileIn(stateDir), 'utf8'));
    return Array.isArray(value) ? value.filter((each): each is number => typeof each === 'number') : [];
  } catch {
    return [];
  }
}

export function noteEnd(stateDir: string, now = Date.now()): void {
  try {
    writeFileSync(fileIn(stateDir), JSON.stringify([...endsIn(stateDir), now].slice(-ENDS)), { mode: 0o600 });
  } catch {
    // The log has it.
  }
}

/** Whether the last gateways of this folder ended one after the other. */
export function isCrashLoop(stateDir: string, now = Date.now()): boolean {
  const ends = endsIn(stateDir);
  const [first = 0, last = 0] = [ends[0], ends.at(-1)];
  return ends.length >= ENDS && last - first <= WITHIN_MS && Math.abs(now - last) <= RECENT_MS;
}
