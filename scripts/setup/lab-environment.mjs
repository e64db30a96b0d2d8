// @ts-check
/** Stages: JupyterLab's environment, and our extension in it. */
import { existsSync } from 'node:fs';
import { lstat, mkdir, readdir, readlink, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from './checkout.mjs';
import { fingerprint } from './fingerprint.mjs';
import { hasLockedPackages, lockOf, makePythonEnvironment, pythonIn, UV_ENV } from './python-environment.mjs';
import { runOrExplain } from './run-command.mjs';
import { smokeTest } from './smoke-test.mjs';

const CONFIG = path.join(checkout.root, 'jupyter-config', 'server-config');
/** Settings of this JupyterLab only: it is made from a lock file, so it does not check for announcements and newer versions. */
const LAB_SETTINGS = path.join(checkout.root, 'jupyter-config', 'lab-settings', 'overrides.json');
const LABEXTENSIONS = path.join('share', 'jupyter', 'labextensions');
const SERVER_CONFIG = path.join('etc', 'jupyter', 'jupyter_server_config.d');

/** @type {import('./stage.mjs').Stage} */
export const labEnvironment = {
  id: 'lab',
  title: 'JupyterLab',
  after: ['uv'],
  fingerprint: () =>
    fingerprint({ files: [lockOf('lab'), path.join(checkout.definitions, 'lab', 'smoke_test.py')] }),
  isThere: async () => existsSync(pythonIn(checkout.lab)),
  isRight: ({ signal }) => hasLockedPackages('lab', checkout.lab, signal),
  make: context =>
    makePythonEnvironment(
      { name: 'lab', place: checkout.lab, finish: building => smokeTest('lab', building, context.signal) },
      context
    )
};

/** @type {import('./stage.mjs').Stage} */
export const linkedExtension = {
  id: 'extension-link',
  title: 'extension in JupyterLab',
  after: ['lab', 'build'],
  fingerprint: linkFingerprint,
  isThere: () => isLinked(checkout.lab),
  make: context => linkExtension(checkout.lab, context)
};

export function linkFingerprint() {
  return fingerprint({
    files: [path.join(checkout.extension, 'pyproject.toml'), CONFIG, LAB_SETTINGS, lockOf('build')],
    // The links are absolute: a moved checkout is linked again.
    texts: [checkout.root]
  });
}

/**
 * @param {string} environment
 * @returns {Promise<boolean>}
 */
export async function isLinked(environment) {
  const links = await linksOf(environment);
  const right = await Promise.all(
    links.map(async ([place, target]) => (await readlink(place).catch(() => null)) === target)
  );
  return right.every(Boolean) && (await hasPackage(environment, 'tpulab'));
}

/**
 * Installs the server extension so that it follows its sources, and puts links to the built labextension and to the
 * server's configuration in JupyterLab's search path.
 *
 * @param {string} environment
 * @param {import('./stage.mjs').StageContext} context
 */
export async function linkExtension(environment, { signal, detail }) {
  const links = await linksOf(environment);
  // Before the installation: it would otherwise write and delete through the links, in our own folders.
  for (const [place] of links) await rm(place, { recursive: true, force: true });
  const install = ['pip', 'install', '--python', pythonIn(environment), '--no-deps'];
  await runOrExplain(
    'installing the server extension',
    checkout.uv,
    [...install, '--build-constraints', lockOf('build'), '--editable', checkout.extension],
    { signal, env: UV_ENV, timeoutMs: 600_000, onLine: line => detail(line.trim()) }
  );
  for (const [place, target] of links) {
    await rm(place, { recursive: true, force: true });
    await mkdir(path.dirname(place), { recursive: true });
    await symlink(target, place);
  }
}

/**
 * Place of each link, and its target.
 *
 * @param {string} environment
 * @returns {Promise<[string, string][]>}
 */
async function linksOf(environment) {
  const files = (await readdir(CONFIG)).filter(name => name.endsWith('.json'));
  return [
    [path.join(environment, LABEXTENSIONS, '@tpulab', 'labextension'), checkout.labextension],
    [path.join(environment, 'share', 'jupyter', 'lab', 'settings', 'overrides.json'), LAB_SETTINGS],
    ...files.map(
      name =>
        /** @type {[string, string]} */ ([
          path.join(environment, SERVER_CONFIG, name),
          path.join(CONFIG, name)
        ])
    )
  ];
}

/**
 * @param {string} environment
 * @param {string} name as in the folder of its metadata
 */
export async function hasPackage(environment, name) {
  const lib = path.join(environment, 'lib');
  for (const python of existsSync(lib) ? await readdir(lib) : []) {
    const folder = path.join(lib, python, 'site-packages');
    if (!(await lstat(folder).catch(() => null))?.isDirectory()) continue;
    if ((await readdir(folder)).some(entry => entry.startsWith(`${name}-`) && entry.endsWith('.dist-info'))) {
      return true;
    }
  }
  return false;
}
