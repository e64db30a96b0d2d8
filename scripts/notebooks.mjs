// @ts-check
/**
 * `npm run notebooks [-- NAME…]`: runs the notebooks through the bridge on this machine and saves their outputs in their
 * files. Interrupted, it ends the kernels that it has started, and the notebook that ran keeps its old outputs.
 */
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { runToTheLast } from './faults/run-cases.mjs';
import { checkout } from './setup/checkout.mjs';
import { main } from './setup/main.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { testPythons } from './setup/test-environments.mjs';

const HELP = `npm run notebooks [-- NAME…]

Runs the notebooks (all, or those that are named, such as 07-gpt-sovits) through the bridge, as they are, and saves
their outputs in their files: figures and printed lines, no widgets, counts or warnings. All take about ten minutes on
two cores.

Needs what npm test sets up; the notebooks in PyTorch need the environment torch-xla besides. Notebook 04 takes its
encoder from the package that npm run test:real installs, or else from the Hugging Face hub. Section 9 of notebook 08
plays the voice that npm run test:real has trained.`;

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
  const files = await readdir(path.join(checkout.root, 'notebooks'));
  const all = files.filter(file => file.endsWith('.ipynb')).map(file => path.parse(file).name);
  const unknown = positionals.find(name => !all.includes(name));
  if (unknown !== undefined) {
    throw new SetupProblem(
      'bad-option',
      `There is no notebook ${unknown}; there are ${all.sort().join(', ')}.`
    );
  }
  const ended = await runToTheLast(testPythons.clients, ['-m', 'tests.refresh_notebooks', ...positionals], {
    cwd: checkout.root,
    signal,
    onLine: print,
    env: { PYTHONUNBUFFERED: '1' }
  });
  return ended.exitCode ?? 1;
});
