// @ts-check
/**
 * `npm run test:torch-tpu`: makes the environment `torch-tpu` and tries what of it can be tried without a TPU, then says
 * what could not. On a machine with chips the contract suite of the seam runs on it too, in one process on one device.
 */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { checkout } from './setup/checkout.mjs';
import { setUp, TEST_STAGES } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { TORCH_TPU_STAGES, torchPythons } from './setup/torch-tests.mjs';

const controller = new AbortController();
process.once('SIGINT', () => controller.abort());
process.once('SIGTERM', () => controller.abort());
try {
  await setUp({ stages: [...TEST_STAGES, ...TORCH_TPU_STAGES], signal: controller.signal });
  const tests = ['on_torch_tpu', 'runtime'].map(folder =>
    path.join(checkout.root, 'recipes', 'tests', folder)
  );
  const { status } = spawnSync(
    torchPythons.torchTpu,
    ['-m', 'pytest', '-q', '-rs', '-c', path.join(checkout.root, 'recipes', 'pyproject.toml'), ...tests],
    { stdio: 'inherit' }
  );
  process.exitCode = status ?? 1;
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  process.stderr.write(`${[error.message, ...error.details].join('\n')}\n`);
  process.exitCode = 1;
}
