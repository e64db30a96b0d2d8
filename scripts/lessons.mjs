// @ts-check
/**
 * `npm run test:lessons`: trains to their end the lessons that `npm test` trains for a few steps only: the results that the text promises
 * after minutes of training. And diffusion and the voices on two hosts of a slice.
 */
import { spawnSync } from 'node:child_process';
import { setUp, TEST_STAGES } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { testPythons } from './setup/test-environments.mjs';
import { TORCH_XLA_STAGES } from './setup/torch-tests.mjs';
import { inRoot } from './test/steps.mjs';

const controller = new AbortController();
process.once('SIGINT', () => controller.abort());
process.once('SIGTERM', () => controller.abort());
try {
  await setUp({ stages: [...TEST_STAGES, ...TORCH_XLA_STAGES], signal: controller.signal });
  const runs = [
    [testPythons.clients, inRoot('tests/torch_notebooks'), '-k', 'EnglishTts or slice'],
    [
      testPythons.agent,
      ...['-c', inRoot('recipes/pyproject.toml')],
      inRoot('recipes/tests/ddpm/test_slice_kernel.py')
    ]
  ];
  const statuses = runs.map(
    ([python = '', ...args]) =>
      spawnSync(python, ['-m', 'pytest', '-q', ...args], {
        stdio: 'inherit',
        env: { ...process.env, TPULAB_WHOLE_LESSONS: '1' }
      }).status ?? 1
  );
  process.exitCode = Math.max(...statuses);
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  process.stderr.write(`${[error.message, ...error.details].join('\n')}\n`);
  process.exitCode = 1;
}
