// @ts-check
/**
 * A kernel of several hosts beside plain ipyparallel: time to the first cell, and what a cell costs.
 *
 * Options: `--hosts 4,8`, `--cells N`, `--json FILE`, `--no-save`. Runs in the environment `jax`; hosts are processes on XLA:CPU.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const environments = process.env['TPULAB_ENV_DIR'] ?? join(here, '..', '..', '.tpulab', 'envs');
const python = join(environments, 'jax', 'bin', 'python');
const { status } = spawnSync(python, [join(here, 'compare.py'), ...process.argv.slice(2)], {
  stdio: 'inherit'
});
process.exitCode = status ?? 1;
