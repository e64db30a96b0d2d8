/**
 * The keeper process: `node main.js start|adopt KERNEL_DIR [SCOPE]`, started by `launchKeeper` in a session of its own, with its
 * output going to keeper.log. Builds the parts, answers on descriptor 3 once, and ends when the kernel has been shut down.
 */
import { closeSync, writeSync } from 'node:fs';
import { destination, pino } from 'pino';
import { KeeperError } from './keeper-error.js';
import type { StartReport } from './launch-keeper.js';
import { runKeeper } from './run-keeper.js';

const REPORT_FD = 3;

const output = destination({ dest: 1, sync: true });
// A full disk must not end a keeper because its log cannot be written.
output.on('error', () => undefined);
const log = pino({ base: { pid: process.pid } }, output);

function report(content: StartReport): void {
  try {
    writeSync(REPORT_FD, JSON.stringify(content));
    closeSync(REPORT_FD);
  } catch (error) {
    log.warn({ err: error }, 'nobody waits for the report');
  }
}

// The terminal of the gateway may close; the kernel goes on.
process.on('SIGHUP', () => log.info('SIGHUP ignored'));
// The kernel must outlive a fault here: it was started in a session of its own, and can be found by its connection file.
process.on('uncaughtException', error => {
  log.fatal({ err: error }, 'the keeper failed');
  process.exit(70);
});

const [task, kernelDir, scope] = process.argv.slice(2);
if ((task !== 'start' && task !== 'adopt') || kernelDir === undefined) {
  report({
    ready: false,
    code: 'launch_invalid',
    message: 'The command line of a keeper is: start or adopt, the folder of the kernel.'
  });
  process.exit(64);
}
try {
  log.info({ task, scope }, 'the keeper starts');
  const keeper = await runKeeper(kernelDir, task, log);
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      log.info({ signal }, 'asked to end');
      keeper.end();
    });
  }
  report({ ready: true });
  await keeper.ended;
  log.info('ended');
  // libzmq's threads and a timer of a library must not keep a keeper without a kernel.
  process.exit(0);
} catch (error) {
  log.fatal({ err: error }, 'the keeper cannot start');
  const { code, message } =
    error instanceof KeeperError
      ? error
      : { code: 'keeper_start_failed' as const, message: `The keeper failed: ${(error as Error).message}` };
  report({ ready: false, code, message });
  process.exit(1);
}
