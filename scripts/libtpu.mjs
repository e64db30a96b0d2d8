// @ts-check
/**
 * `npm run test:libtpu`: the stand-in metric server of the specs, queried by libtpu's own SDK. Makes the environment `torch-tpu`,
 * which has libtpu, unless TPULAB_LIBTPU_PYTHON names a Python that has it. Needs port 8431 free, and no TPU.
 */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { checkout } from './setup/checkout.mjs';
import { pythonIn } from './setup/python-environment.mjs';
import { setUp, TEST_STAGES } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { TORCH_TPU_STAGES } from './setup/torch-tests.mjs';

const given = process.env['TPULAB_LIBTPU_PYTHON'];
const controller = new AbortController();
process.once('SIGINT', () => controller.abort());
process.once('SIGTERM', () => controller.abort());
try {
  await setUp({ stages: [...TEST_STAGES, ...(given ? [] : TORCH_TPU_STAGES)], signal: controller.signal });
  const python = given ?? pythonIn(path.join(checkout.envs, 'torch-tpu'));
  const { status } = spawnSync(
    'npx',
    ['vitest', 'run', '--project', 'kernel-bridge', 'kernel-bridge/src/devices/libtpu-sdk.spec.ts'],
    { cwd: checkout.root, stdio: 'inherit', env: { ...process.env, TPULAB_LIBTPU_PYTHON: python } }
  );
  process.exitCode = status ?? 1;
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  process.stderr.write(`${[error.message, ...error.details].join('\n')}\n`);
  process.exitCode = 1;
}
