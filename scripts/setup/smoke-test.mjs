// @ts-check
/** Runs environments/NAME/smoke_test.py, which prints one JSON line per check. */
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { pythonIn, UV_ENV } from './python-environment.mjs';
import { run } from './run-command.mjs';
import { SetupProblem } from './setup-problem.mjs';

/**
 * @param {string} name
 * @param {string} environment its folder (while it is built, beside its place)
 * @param {AbortSignal} signal
 */
export async function smokeTest(name, environment, signal) {
  const script = path.join(checkout.definitions, name, 'smoke_test.py');
  const ended = await run(pythonIn(environment), ['-P', '-s', script], {
    signal,
    env: UV_ENV,
    timeoutMs: 300_000
  });
  const failed = ended.stdout
    .filter(line => line.startsWith('{'))
    .map(line => /** @type {{ check: string, ok: boolean, detail: string }} */ (JSON.parse(line)))
    .filter(check => !check.ok);
  if (ended.exitCode === 0 && failed.length === 0) return;
  throw new SetupProblem(
    'smoke-test',
    `The environment "${name}" was made and does not work; remove the folder .tpulab and start again.`,
    { details: [...failed.map(check => `${check.check}: ${check.detail}`), ...ended.stderr.slice(-5)] }
  );
}
