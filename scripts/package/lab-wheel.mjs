// @ts-check
/** The wheel `tpulab`: the built labextension, the server extension, the bridge with its data, and the packages that kernels import. */
import { existsSync } from 'node:fs';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { checkout } from '../setup/checkout.mjs';
import { SetupProblem } from '../setup/setup-problem.mjs';
import { makeWheel } from './wheels.mjs';

/**
 * Made from a copy outside the checkout: there the bridge may be inside the package, where a checkout has none, and no
 * .gitignore hides built files.
 *
 * @param {string} bridge the bundle of the bridge
 * @param {string} folder destination of the wheel
 * @param {AbortSignal} [signal]
 */
export async function makeLabWheel(bridge, folder, signal) {
  if (!existsSync(path.join(checkout.labextension, 'package.json'))) {
    throw new SetupProblem('failed', 'The labextension is not built; run `npm run build` first.');
  }
  const stage = await mkdtemp(path.join(tmpdir(), 'tpulab-wheel-'));
  try {
    const extension = path.join(stage, 'extension');
    const copied = ['pyproject.toml', 'install.json', 'jupyterlab_tpulab'].map(part =>
      path.join(checkout.extension, part)
    );
    for (const part of [...copied, path.join(checkout.root, 'kernel-agent', 'src', 'tpulab')]) {
      await cp(part, path.join(extension, path.basename(part)), {
        recursive: true,
        filter: file => !/__pycache__|\.pyc$/.test(file)
      });
    }
    await cp(path.join(checkout.root, 'jupyter-config'), path.join(stage, 'jupyter-config'), {
      recursive: true
    });
    await cp(bridge, path.join(extension, 'jupyterlab_tpulab', 'bridge'), { recursive: true });
    await makeWheel(extension, folder, signal);
  } finally {
    await rm(stage, { recursive: true, force: true });
  }
}
