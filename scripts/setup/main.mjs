// @ts-check
/** The common part of the scripts' entries: signals abort the work, and a failure is one sentence and an exit code. */
import { Interrupted, SetupProblem } from './setup-problem.mjs';

const EXIT_CODES = Object.freeze({ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 });

/** @param {(signal: AbortSignal) => Promise<number | void>} work its result is the exit code */
export async function main(work) {
  const controller = new AbortController();
  let interrupted = 0;
  for (const [name, code] of Object.entries(EXIT_CODES)) {
    process.on(name, () => {
      interrupted ||= code;
      controller.abort();
    });
  }
  const parentWatch = watchParent(() => {
    interrupted ||= EXIT_CODES.SIGHUP;
    controller.abort();
  });
  // The reader of our output may have ended (a pipe to `head`): the started processes must still be ended in order.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => controller.abort());
  let code;
  try {
    code = (await work(controller.signal)) ?? 0;
  } catch (error) {
    if (error instanceof SetupProblem) {
      process.stderr.write(`\n${error.message}\n`);
      for (const line of error.details) process.stderr.write(`    ${line}\n`);
      code = 1;
    } else if (error instanceof Interrupted) {
      process.stderr.write('\nInterrupted; the next start continues from here.\n');
      code = interrupted || 130;
    } else {
      throw error;
    }
  }
  clearInterval(parentWatch);
  // Not process.exit immediately: pending output would be cut off.
  process.exitCode = interrupted || code;
  process.stdout.write('', () => process.exit());
}

const PARENT_POLL_MS = 500;

/**
 * npm passes signals on, but cannot when it is killed itself: then we have no parent any more, and ending npm
 * would not end us. Without npm a parent may end on purpose (nohup).
 *
 * @param {() => void} onParentEnd
 * @returns {NodeJS.Timeout | undefined}
 */
function watchParent(onParentEnd) {
  if (process.env['npm_lifecycle_event'] === undefined) return undefined;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onParentEnd();
  }, PARENT_POLL_MS);
  return timer.unref();
}
