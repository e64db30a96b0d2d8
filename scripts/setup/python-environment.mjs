// @ts-check
/** Makes a Python environment from a lock file: beside its place, and renamed into it at the end. */
import { existsSync } from 'node:fs';
import { readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { run, runOrExplain } from './run-command.mjs';

/** @param {string} name */
export function lockOf(name) {
  return path.join(checkout.definitions, name, 'requirements.lock');
}

/** @param {string} environment */
export function pythonIn(environment) {
  return path.join(environment, 'bin', 'python');
}

/** Options of uv everywhere: only installed interpreters, and nothing from outside the environment. */
export const UV_ENV = Object.freeze({
  UV_PYTHON_DOWNLOADS: 'never',
  UV_NO_PROGRESS: '1',
  VIRTUAL_ENV: undefined,
  CONDA_PREFIX: undefined,
  PYTHONPATH: undefined,
  PYTHONHOME: undefined
});

const TIMEOUT_MS = 30 * 60_000;

/**
 * @param {object} wanted
 * @param {string} wanted.name folder below environments/
 * @param {string} wanted.place
 * @param {(building: string) => Promise<void>} [wanted.finish] the remaining work before it is put in place
 * @param {import('./stage.mjs').StageContext} context
 */
export async function makePythonEnvironment({ name, place, finish }, context) {
  const { signal, detail } = context;
  const python = await context.python();
  await sweep(place);
  const building = `${place}.building-${process.pid}`;
  const options = { signal, env: UV_ENV, timeoutMs: TIMEOUT_MS, onLine: shorten(detail) };
  try {
    const venv = ['venv', '--relocatable', '--no-project', '--no-config', '--prompt', name];
    await runOrExplain(
      `making the environment ${name}`,
      checkout.uv,
      [...venv, '--python', python.path, building],
      options
    );
    const install = [
      'pip',
      'install',
      '--python',
      pythonIn(building),
      '--require-hashes',
      '--compile-bytecode'
    ];
    await runOrExplain(
      `installing the packages of ${name}`,
      checkout.uv,
      [...install, '-r', lockOf(name)],
      options
    );
    await finish?.(building);
    const replaced = `${place}.replaced-${process.pid}`;
    if (existsSync(place)) await rename(place, replaced);
    await rename(building, place);
    await remove(replaced);
  } finally {
    await remove(building);
  }
}

/**
 * Whether the environment has exactly the packages of the lock file (or more: our own packages).
 *
 * @param {string} name
 * @param {string} place
 * @param {AbortSignal} signal
 */
export async function hasLockedPackages(name, place, signal) {
  const install = [
    'pip',
    'install',
    '--python',
    pythonIn(place),
    '--require-hashes',
    '--dry-run',
    '--offline'
  ];
  const ended = await run(checkout.uv, [...install, '-r', lockOf(name)], { signal, env: UV_ENV });
  return ended.exitCode === 0 && ended.stderr.some(line => line.includes('Would make no changes'));
}

/** @param {(text: string) => void} detail */
function shorten(detail) {
  return (/** @type {string} */ line) => detail(line.trim());
}

/** @param {string} folder */
async function remove(folder) {
  await rm(folder, { recursive: true, force: true, maxRetries: 5 });
}

/**
 * Remains of killed runs beside the place. The setup lock ensures that no other run builds there now.
 *
 * @param {string} place
 */
async function sweep(place) {
  const parent = path.dirname(place);
  const prefix = path.basename(place);
  for (const entry of existsSync(parent) ? await readdir(parent) : []) {
    if (!entry.startsWith(`${prefix}.building-`) && !entry.startsWith(`${prefix}.replaced-`)) continue;
    await remove(path.join(parent, entry));
  }
}
