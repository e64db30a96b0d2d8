// @ts-check
/** The parts of a benchmark that run in the environment `torch-xla`: Python scripts, each of which prints JSON in its last line. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { machineFacts, versionsOf } from './machine.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PYTHON = join(
  process.env['TPULAB_ENV_DIR'] ?? join(ROOT, '.tpulab', 'envs'),
  'torch-xla',
  'bin',
  'python'
);

/**
 * Ends the process if the environment is missing.
 *
 * @param {string} folder of the scripts, in `bench` @param {readonly string[]} more packages whose versions are reported
 */
export function torchXla(folder, more = []) {
  if (!existsSync(PYTHON)) {
    console.error('The environment "torch-xla" is missing; `npx tpulab env create torch-xla` makes it.');
    process.exit(2);
  }
  return {
    machine: { ...machineFacts(), packages: versionsOf(PYTHON, ['torch', 'torch_xla', ...more]) },
    /** @param {string} script without `.py` @param {string[]} options @returns {any} */
    measure: (script, ...options) => {
      console.error(`measuring ${[script, ...options].join(' ')} …`);
      const output = execFileSync(PYTHON, [join(ROOT, 'bench', folder, `${script}.py`), ...options], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
        timeout: 1_800_000
      });
      return JSON.parse(output.trim().split('\n').at(-1) ?? '');
    }
  };
}
