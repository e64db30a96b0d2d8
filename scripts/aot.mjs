// @ts-check
/**
 * `npm run test:aot`: makes an environment with the TPU compiler (684 MB) and compiles training steps ahead of time for
 * v4, v5e, v5p and v6e: the diffusion recipe's, and those of PyTorch recipes, which the environment with PyTorch/XLA
 * exports. No TPU is needed, and nothing runs on one.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { checkout } from './setup/checkout.mjs';
import { fingerprint } from './setup/fingerprint.mjs';
import { lockOf, makePythonEnvironment, pythonIn } from './setup/python-environment.mjs';
import { setUp, TEST_STAGES } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { TORCH_XLA_STAGES, torchPythons } from './setup/torch-tests.mjs';

const place = path.join(checkout.testEnvs, 'aot');
const python = pythonIn(place);

/** @type {import('./setup/stage.mjs').Stage} */
const environment = {
  id: 'test-aot',
  title: 'Python with the TPU compiler',
  fingerprint: () => fingerprint({ files: [lockOf('test-aot')] }),
  isThere: async () => existsSync(python),
  make: context => makePythonEnvironment({ name: 'test-aot', place }, context)
};

const controller = new AbortController();
process.once('SIGINT', () => controller.abort());
process.once('SIGTERM', () => controller.abort());
try {
  await setUp({ stages: [...TEST_STAGES, ...TORCH_XLA_STAGES, environment], signal: controller.signal });
  const recipes = path.join(checkout.root, 'recipes');
  const { status } = spawnSync(
    python,
    [
      ...['-m', 'pytest', '-q', '-s', '-c', path.join(recipes, 'pyproject.toml')],
      ...['ddpm_aot', 'torch_aot'].map(folder => path.join(recipes, 'tests', folder)),
      ...process.argv.slice(2)
    ],
    { stdio: 'inherit', env: { ...process.env, TPULAB_TORCH_PYTHON: torchPythons.torchXla } }
  );
  process.exitCode = status ?? 1;
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  process.stderr.write(`${[error.message, ...error.details].join('\n')}\n`);
  process.exitCode = 1;
}
