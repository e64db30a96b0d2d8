// @ts-check
/**
 * A kernel of several hosts beside plain ipyparallel: time to the first cell, and what a cell costs.
 *
 * Options: `--hosts 4,8`, `--cells N`, `--json FILE`, `--no-save`. Runs in the environment `jax`; hosts are processes on XLA:CPU.
 * With `--outputs` first: the path of the outputs alone, for up to 256 simulated hosts; with `--journal` first: the journal and the
 * clients behind it (`journal.mjs`). `npm run bench -- panels --hosts 256` measures the panel.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

if (process.argv[2] === '--journal') {
  process.argv.splice(2, 1);
  await import('./journal.mjs');
} else {
  runPython();
}

function runPython() {
  const here = dirname(fileURLToPath(import.meta.url));
  const environments = process.env['TPULAB_ENV_DIR'] ?? join(here, '..', '..', '.tpulab', 'envs');
  const python = join(environments, 'jax', 'bin', 'python');
  const [first, ...others] = process.argv.slice(2);
  const script = first === '--outputs' ? ['outputs.py', ...others] : ['compare.py', ...process.argv.slice(2)];
  const { status } = spawnSync(python, [join(here, script[0] ?? ''), ...script.slice(1)], {
    stdio: 'inherit'
  });
  process.exitCode = status ?? 1;
}
