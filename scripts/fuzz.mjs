// @ts-check
/**
 * `npm run fuzz`: randomly damaged journals, read by every reader, and a remote whose responses come from a grammar of HTTP,
 * for as long as wanted. `npm test` has a few of them.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import { run } from './setup/run-command.mjs';
import { checkout } from './setup/checkout.mjs';
import { main } from './setup/main.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';

const HELP = `npm run fuzz [-- --seconds N] [--seed N] [--remote]

  --seconds N   time for each property (default: 60; 1 to 3600)
  --seed N      a whole number; a failed run prints its own, which repeats it
  --remote      only the hostile remote (an hour: --seconds 3600)
  --help        this text

Needs the setup of npm test.`;

await main(async signal => {
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string', default: '60' },
      seed: { type: 'string' },
      remote: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false }
    }
  });
  const print = (/** @type {string} */ line) => process.stdout.write(`${line}\n`);
  if (values.help) {
    print(HELP);
    return 0;
  }
  const seconds = Number(values.seconds);
  if (!(seconds >= 1 && seconds <= 3600)) {
    throw new SetupProblem('bad-option', '--seconds wants a number from 1 to 3600.');
  }
  if (values.seed !== undefined && !Number.isInteger(Number(values.seed))) {
    throw new SetupProblem('bad-option', '--seed wants a whole number.');
  }
  const vitest = path.join(checkout.root, 'node_modules/vitest/vitest.mjs');
  const faults = 'kernel-bridge/src/faults';
  const specs = [
    `${faults}/hostile-remote.property.spec.ts`,
    ...(values.remote ? [] : [`${faults}/journal-readers.property.spec.ts`])
  ];
  const args = [vitest, 'run', '--project=kernel-bridge', '--reporter=verbose', ...specs];
  const ended = await run(process.execPath, args, {
    cwd: checkout.root,
    signal,
    timeoutMs: (seconds * 40 + 600) * 1000,
    onLine: print,
    env: {
      CI: 'true',
      NO_COLOR: '1',
      TPULAB_FUZZ_MS: String(seconds * 1000),
      ...(values.seed === undefined ? {} : { TPULAB_FUZZ_SEED: values.seed })
    }
  });
  return ended.exitCode === 0 ? 0 : 1;
});
