// @ts-check
/** Where things are in this checkout. All results of the setup are below `.tpulab`, and `node_modules`. */
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(fileURLToPath(new URL('../../', import.meta.url)));
const made = path.join(root, '.tpulab');

export const checkout = Object.freeze({
  root,
  /** Everything that is made here and is not a source. */
  made,
  /** One file for each finished setup stage. */
  stamps: path.join(made, 'stamps'),
  caches: path.join(made, 'cache'),
  /** Environment of uv, and of ruff and mypy. */
  tools: path.join(made, 'tools'),
  uv: path.join(made, 'tools', 'bin', 'uv'),
  /** Environment of JupyterLab. */
  lab: path.join(made, 'lab'),
  /** Environments that kernels run in. */
  envs: path.join(made, 'envs'),
  /** Environments that tests run in. */
  testEnvs: path.join(made, 'test'),
  /** State of the bridge and of JupyterLab that `npm start` runs; tests use their own folder. */
  state: process.env['TPULAB_START_STATE'] ?? path.join(made, 'state'),
  reports: path.join(made, 'reports'),
  definitions: path.join(root, 'environments'),
  notebooks: path.join(root, 'notebooks'),
  extension: path.join(root, 'extension'),
  labextension: path.join(root, 'extension', 'jupyterlab_tpulab', 'labextension'),
  cli: path.join(root, 'kernel-bridge', 'bin', 'tpulab.js'),
  /** The same, bundled into one file per program: it loads in half the time, and is part of the packages. */
  bundledCli: path.join(made, 'bridge', 'bin', 'tpulab.js')
});

/**
 * The path as a person reads it: short when it is inside the checkout.
 *
 * @param {string} file
 */
export function shown(file) {
  const relative = path.relative(root, file);
  return relative.startsWith('..') || path.isAbsolute(relative) ? file : relative || '.';
}
