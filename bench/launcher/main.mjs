// @ts-check
/**
 * The cost of an output to a kernel, with our launcher and with ipykernel's, and whether both print the same.
 *
 * Options: `--outputs N`, `--rounds N`, `--json FILE`.
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
