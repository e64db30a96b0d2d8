// @ts-check
/**
 * `npm run test:aot`: makes an environment with the TPU compiler (684 MB) and compiles training steps ahead of time for
 * v4, v5e, v5p and v6e: the diffusion recipe's, and those of PyTorch recipes, which the environment with PyTorch/XLA
 * exports. No TPU is needed, and nothing runs on one.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from './setup/build.mjs';
import { checkout } from './setup/checkout.mjs';
import { fingerprint } from './setup/fingerprint.mjs';
import { npmPackages } from './setup/npm-packages.mjs';
import { lockOf, makePythonEnvironment, pythonIn } from './setup/python-environment.mjs';
import { setUp } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { uvTool } from './setup/tools.mjs';
import { TORCH_XLA_STAGES, torchPythons } from './setup/torch-tests.mjs';

const HELP = `npm run test:aot [-- OPTIONS] [-- PYTEST-OPTIONS]

Compiles training steps for v4, v5e, v5p and v6e without a TPU, in two parts:

  --only jax     the diffusion recipe; needs the TPU compiler (684 MB)
  --only torch   the PyTorch recipes; also needs the environment torch-xla (8 GB)
  --help         this text

  npm run test:aot -- --only jax -- -k v5e`;

const { values, positionals } = parseArgs({
  options: { only: { type: 'string' }, help: { type: 'boolean', default: false } },
  allowPositionals: true
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const FOLDERS = { jax: 'ddpm_aot', torch: 'torch_aot' };
if (values.only !== undefined && !Object.hasOwn(FOLDERS, values.only)) {
  console.error(`--only takes jax or torch, not ${values.only}.`);
  process.exit(2);
}
const withTorch = values.only !== 'jax';
const folders = Object.entries(FOLDERS).filter(([half]) => (values.only ?? half) === half);

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
  // The bridge, which is built of npm packages, makes the environment with PyTorch/XLA.
  const torch = withTorch ? [npmPackages, build, ...TORCH_XLA_STAGES] : [];
  await setUp({ stages: [uvTool, ...torch, environment], signal: controller.signal });
  const recipes = path.join(checkout.root, 'recipes');
  const { status } = spawnSync(
    python,
    [
      ...['-m', 'pytest', '-q', '-s', '-c', path.join(recipes, 'pyproject.toml')],
      ...folders.map(([, folder]) => path.join(recipes, 'tests', folder)),
      ...positionals
    ],
    { stdio: 'inherit', env: { ...process.env, TPULAB_TORCH_PYTHON: torchPythons.torchXla } }
  );
  process.exitCode = status ?? 1;
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  process.stderr.write(`${[error.message, ...error.details].join('\n')}\n`);
  process.exitCode = 1;
}
