// @ts-check
/**
 * Stages of the tests in PyTorch. Their Python is small: pytest and JAX, and a path file through which it sees the
 * packages of the kernel environment, which therefore exists only once.
 */
import { existsSync } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { fingerprint } from './fingerprint.mjs';
import { torchTpuEnvironment, torchXlaEnvironment } from './kernel-environment.mjs';
import { lockOf, makePythonEnvironment, pythonIn, UV_ENV } from './python-environment.mjs';
import { runOrExplain } from './run-command.mjs';

export const torchPythons = Object.freeze({
  torchXla: pythonIn(path.join(checkout.testEnvs, 'torch')),
  torchTpu: pythonIn(path.join(checkout.testEnvs, 'torch-tpu')),
  real: pythonIn(path.join(checkout.testEnvs, 'real'))
});

/**
 * @param {string} name of the test environment
 * @param {string} seen the kernel environment whose packages it sees
 * @param {string} own its own packages beside them
 * @returns {import('./stage.mjs').Stage}
 */
function testsIn(name, seen, own = 'test-torch') {
  const place = path.join(checkout.testEnvs, name);
  const weights = path.join(checkout.definitions, own, 'weights.lock');
  const locks = [lockOf(own), ...(existsSync(weights) ? [weights] : [])];
  return {
    id: `test-${name}`,
    title: `Python for tests in ${seen}`,
    fingerprint: () => fingerprint({ files: locks, texts: [checkout.root, seen] }),
    isThere: async () => existsSync(pythonIn(place)),
    make: context =>
      makePythonEnvironment(
        {
          name: own,
          place,
          async finish(building) {
            const packages = await sitePackages(path.join(checkout.envs, seen));
            const link = path.join(await sitePackages(building), `${seen}.pth`);
            // Not the path alone: `addsitedir` also reads the path files there, which lead to the agent and the recipes.
            await writeFile(link, `import site; site.addsitedir(${JSON.stringify(packages)})\n`);
            if (!locks.includes(weights)) return;
            const alone = ['--python', pythonIn(building), '--require-hashes', '--no-deps', '-r', weights];
            await runOrExplain(
              `installing the weights of ${name}`,
              checkout.uv,
              ['pip', 'install', ...alone],
              {
                signal: context.signal,
                env: UV_ENV,
                timeoutMs: 600_000
              }
            );
          }
        },
        context
      )
  };
}

/** @param {string} environment */
async function sitePackages(environment) {
  const libraries = path.join(environment, 'lib');
  const version = (await readdir(libraries)).find(entry => entry.startsWith('python3'));
  return path.join(libraries, version ?? 'python3', 'site-packages');
}

export const TORCH_XLA_STAGES = Object.freeze([torchXlaEnvironment, testsIn('torch', 'torch-xla')]);
export const REAL_STAGES = Object.freeze([torchXlaEnvironment, testsIn('real', 'torch-xla', 'test-real')]);
export const TORCH_TPU_STAGES = Object.freeze([torchTpuEnvironment, testsIn('torch-tpu', 'torch-tpu')]);
