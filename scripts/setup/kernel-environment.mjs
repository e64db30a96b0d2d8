// @ts-check
/** Stage: the environment `jax`, made by the bridge's own command. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { fingerprint } from './fingerprint.mjs';
import { run, runOrExplain } from './run-command.mjs';
import { SetupProblem } from './setup-problem.mjs';
import { UV_ENV } from './python-environment.mjs';

const DEFINITION = path.join(checkout.definitions, 'jax');

/** @type {import('./stage.mjs').Stage} */
export const jaxEnvironment = {
  id: 'jax',
  title: 'environment with JAX',
  fingerprint: () =>
    fingerprint({
      files: ['environment.json', 'requirements.lock', 'smoke_test.py'].map(name =>
        path.join(DEFINITION, name)
      ),
      texts: [checkout.root]
    }),
  isThere: async () => existsSync(path.join(checkout.envs, 'jax', 'tpulab.json')),
  async make({ signal, detail, python }) {
    const { path: interpreter } = await python();
    const where = ['--env-dir', checkout.envs, '--definitions', checkout.definitions];
    const agent = ['--agent', path.join(checkout.root, 'kernel-agent')];
    const env = { ...UV_ENV, TPULAB_UV: checkout.uv };
    await runOrExplain(
      'making the environment "jax"',
      process.execPath,
      [checkout.cli, 'env', 'create', 'jax', '--python', interpreter, ...agent, ...where],
      { signal, env, timeoutMs: 30 * 60_000, onLine: line => detail(line.trim()) }
    );
    detail('trying it out');
    const tried = await run(process.execPath, [checkout.cli, 'env', 'check', 'jax', ...where], {
      signal,
      env,
      timeoutMs: 600_000
    });
    if (tried.exitCode === 0) return;
    throw new SetupProblem(
      'smoke-test',
      'The environment "jax" was made and does not work; remove .tpulab/envs/jax and start again.',
      { details: [...tried.stdout, ...tried.stderr].slice(-12) }
    );
  }
};
