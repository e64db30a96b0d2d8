// @ts-check
/** Stages: kernel environments, made by the bridge's own command. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { fingerprint } from './fingerprint.mjs';
import { run, runOrExplain } from './run-command.mjs';
import { SetupProblem } from './setup-problem.mjs';
import { UV_ENV } from './python-environment.mjs';

/**
 * @param {string} name folder below environments/
 * @param {string} title
 * @returns {import('./stage.mjs').Stage}
 */
function kernelEnvironment(name, title) {
  const definition = path.join(checkout.definitions, name);
  return {
    id: name,
    title,
    after: ['uv', 'build'],
    fingerprint: () =>
      fingerprint({
        files: ['environment.json', 'requirements.lock', 'smoke_test.py'].map(file =>
          path.join(definition, file)
        ),
        texts: [checkout.root]
      }),
    isThere: async () => existsSync(path.join(checkout.envs, name, 'tpulab.json')),
    async make({ signal, detail, python }) {
      const { path: interpreter } = await python();
      const where = ['--env-dir', checkout.envs, '--definitions', checkout.definitions];
      const own = ['--agent', path.join(checkout.root, 'kernel-agent')];
      const recipes = ['--recipes', path.join(checkout.root, 'recipes')];
      const env = { ...UV_ENV, TPULAB_UV: checkout.uv };
      await runOrExplain(
        `making the environment "${name}"`,
        process.execPath,
        [checkout.cli, 'env', 'create', name, '--python', interpreter, ...own, ...recipes, ...where],
        { signal, env, timeoutMs: 30 * 60_000, onLine: line => detail(line.trim()) }
      );
      detail('trying it out');
      const tried = await run(process.execPath, [checkout.cli, 'env', 'check', name, ...where], {
        signal,
        env,
        timeoutMs: 600_000
      });
      if (tried.exitCode === 0) return;
      throw new SetupProblem(
        'smoke-test',
        `The environment "${name}" was made and does not work; remove .tpulab/envs/${name} and start again.`,
        { details: [...tried.stdout, ...tried.stderr].slice(-12) }
      );
    }
  };
}

export const jaxEnvironment = kernelEnvironment('jax', 'environment with JAX');
/** About 8 GB and some minutes: made when needed, never by `npm start`. */
export const torchXlaEnvironment = kernelEnvironment('torch-xla', 'environment with PyTorch/XLA');
export const torchTpuEnvironment = kernelEnvironment('torch-tpu', 'environment with torch_tpu');
