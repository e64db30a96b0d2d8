/**
 * The keeper process: `node main.js start|adopt KERNEL_DIR [SCOPE]`, started by `launchKeeper` in its own session, with its
 * output in keeper.log. Builds the parts, answers on descriptor 3 once, and ends when the kernel has been shut down.
 *
 * `node main.js spare [SCOPE]` waits for the folder of its kernel on descriptor 3 (`SpareKeeper`).
 */
import { closeSync, read, writeSync } from 'node:fs';
import { promisify } from 'node:util';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import { keeperLog } from './keeper-log.js';
import { runKeeper } from './run-keeper.js';
import type { StartReport } from '../keeper-protocol/start-report.js';

const REPORT_FD = 3;
const NEWLINE = 0x0a;

const log = keeperLog(1);

function report(content: StartReport): void {
  try {
    writeSync(REPORT_FD, JSON.stringify(content));
    closeSync(REPORT_FD);
  } catch (error) {
    log.warn({ err: error }, 'nobody waits for the report');
  }
}

// The terminal of the gateway may close; the kernel continues.
process.on('SIGHUP', () => log.info('SIGHUP ignored'));
// The kernel must outlive a fault here: it runs in its own session, and can be found by its connection file.
process.on('uncaughtException', error => {
  log.fatal({ err: error }, 'the keeper failed');
  process.exit(70);
});

/** Null when the owner of the spare keeper has ended. */
async function orderedFolder(): Promise<string | null> {
  const parts: Buffer[] = [];
  for (;;) {
    const part = Buffer.alloc(4096);
    // The descriptor blocks, so this waits in a thread, and the process sleeps.
    const { bytesRead } = await promisify(read)(REPORT_FD, part, 0, part.length, null);
    if (bytesRead === 0) return null;
    parts.push(part.subarray(0, bytesRead));
    if (part[bytesRead - 1] === NEWLINE) return JSON.parse(Buffer.concat(parts).toString('utf8')) as string;
  }
}

let [task, kernelDir, scope] = process.argv.slice(2);
if (task === 'spare') {
  const folder = await orderedFolder().catch(() => null);
  if (folder === null) process.exit(0);
  [task, kernelDir, scope] = ['start', folder, kernelDir];
  process.chdir(kernelDir);
}
if ((task !== 'start' && task !== 'adopt') || kernelDir === undefined) {
  report({
    ready: false,
    code: 'launch_invalid',
    message: "The command line of a keeper is: start or adopt, the kernel's folder; or spare."
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
  // A library's timer must not keep a keeper without a kernel running.
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
