// @ts-check
/** Wheels of our Python packages, made by uv and hatchling from the pinned build tools. */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from '../setup/checkout.mjs';
import { lockOf, pythonIn, UV_ENV } from '../setup/python-environment.mjs';
import { runOrExplain } from '../setup/run-command.mjs';

/** Packages that kernels run with. A missing folder is left out. */
const KERNEL_PACKAGES = ['kernel-agent', 'recipes'];

/**
 * The wheels that are installed into kernel environments.
 *
 * @param {string} folder
 * @param {AbortSignal} [signal]
 * @returns {Promise<readonly string[]>} sources that were left out
 */
export async function ownWheels(folder, signal) {
  await mkdir(folder, { recursive: true });
  const missing = [];
  for (const name of KERNEL_PACKAGES) {
    const source = path.join(checkout.root, name);
    if (existsSync(path.join(source, 'pyproject.toml'))) await makeWheel(source, folder, signal);
    else missing.push(name);
  }
  return missing;
}

/**
 * The same sources give the same wheel: hatchling writes the time of SOURCE_DATE_EPOCH, or a fixed one.
 *
 * @param {string} source folder with a pyproject.toml
 * @param {string} folder
 * @param {AbortSignal} [signal]
 */
export async function makeWheel(source, folder, signal) {
  const args = ['build', '--wheel', '--no-config', '--no-create-gitignore', '--out-dir', folder];
  await runOrExplain(
    `making the wheel of ${path.basename(source)}`,
    checkout.uv,
    [
      ...args,
      '--python',
      pythonIn(checkout.tools),
      '--build-constraints',
      lockOf('build'),
      '--require-hashes',
      source
    ],
    { env: UV_ENV, timeoutMs: 300_000, ...(signal ? { signal } : {}) }
  );
}
