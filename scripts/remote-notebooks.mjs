// @ts-check
/**
 * `npm run test:remote-notebooks`: each shipped notebook, unchanged and top to bottom, on a bare stand-in machine that was connected a
 * moment ago. `npm test` runs 00 and a short 05 so.
 */
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { runVitest } from './faults/run-cases.mjs';
import { checkout } from './setup/checkout.mjs';
import { main } from './setup/main.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';

const HELP = `npm run test:remote-notebooks [-- NOTEBOOK…]

Connects a bare stand-in for a TPU VM, once for each kernel environment, and runs the notebooks on it (all, or those
named, such as 00-getting-started.ipynb). Prints the time of each.

Needs the setup of npm test, Linux, root, and the package index; notebook 04 also the Hugging Face hub. The PyTorch
notebooks download about 8 GB.`;

const LIMIT_MS = 3 * 60 * 60_000;

await main(async signal => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { help: { type: 'boolean', default: false } }
  });
  const print = (/** @type {string} */ line) => process.stdout.write(`${line}\n`);
  if (values.help) {
    print(HELP);
    return 0;
  }
  const all = (await readdir(path.join(checkout.root, 'notebooks'))).filter(name => name.endsWith('.ipynb'));
  const unknown = positionals.find(name => !all.includes(name));
  if (unknown !== undefined) {
    throw new SetupProblem(
      'bad-option',
      `There is no notebook named ${unknown}; there are ${all.sort().join(', ')}.`
    );
  }
  const ended = await runVitest(
    ['--reporter=verbose', 'kernel-bridge/src/remotes/notebooks-on-remote.integration.spec.ts'],
    {
      cwd: checkout.root,
      signal,
      timeoutMs: LIMIT_MS,
      onLine: print,
      env: {
        CI: 'true',
        NO_COLOR: '1',
        TPULAB_REMOTE_NOTEBOOKS: positionals.length === 0 ? 'all' : positionals.join(' ')
      }
    }
  );
  if (ended.timedOut) print(`Ended after ${LIMIT_MS / 60_000} min, the limit.`);
  return ended.exitCode === 0 ? 0 : 1;
});
