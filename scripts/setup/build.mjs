// @ts-check
/** Stage: our compiled TypeScript, and the bundled programs of the bridge and labextension. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { bundlePrograms } from './bridge-programs.mjs';
import { buildWidgets, WIDGET_FILES, WIDGETS } from './build-widgets.mjs';
import { checkout } from './checkout.mjs';
import { fingerprint } from './fingerprint.mjs';
import { runOrExplain } from './run-command.mjs';
import { SetupProblem } from './setup-problem.mjs';

/** @param {string} name */
const inRoot = name => path.join(checkout.root, name);
const PACKAGES = ['protocol', 'platform', 'machines', 'kernel-bridge', 'extension'];
/** The compiler in Go; the package `typescript` is its predecessor, whose programming interface ESLint's rules need. */
export const TSC = inRoot('node_modules/typescript-7/bin/tsc');

/** @type {import('./stage.mjs').Stage} */
export const build = {
  id: 'build',
  title: 'build',
  after: ['npm-packages'],
  fingerprint: () =>
    fingerprint({
      files: [
        ...['package-lock.json', 'tsconfig.json', 'tsconfig.base.json', 'style'].map(inRoot),
        ...PACKAGES.flatMap(name =>
          ['package.json', 'tsconfig.json', 'src'].map(part => inRoot(`${name}/${part}`))
        ),
        ...['schema', 'install.json'].map(part => path.join(checkout.extension, part))
      ]
    }),
  isThere: async () =>
    PACKAGES.every(name => existsSync(inRoot(`${name}/tsconfig.tsbuildinfo`))) &&
    WIDGETS.every(name => existsSync(path.join(WIDGET_FILES, `${name}.js`))) &&
    (await hasRemoteEntry()),
  async make({ signal, detail }) {
    detail('compiling TypeScript');
    await compile(signal);
    detail('bundling the labextension');
    await bundle(signal);
    detail('bundling the widgets');
    await buildWidgets(signal);
  }
};

/** @param {AbortSignal} [signal] */
export async function compile(signal) {
  await runOrExplain(
    'compiling TypeScript',
    process.execPath,
    [TSC, '--build', '--pretty', 'false', ...PACKAGES],
    {
      cwd: checkout.root,
      timeoutMs: 600_000,
      ...(signal ? { signal } : {})
    }
  );
  await bundlePrograms(path.join(checkout.root, 'kernel-bridge'));
}

/**
 * JupyterLab's builder, run as a program: its own command would search for its own package manager.
 *
 * @param {AbortSignal} [signal]
 */
export async function bundle(signal) {
  const builder = inRoot('node_modules/@jupyter/builder/lib/build-labextension.js');
  const core = inRoot('node_modules/@jupyterlab/core-meta/core.package.json');
  await runOrExplain(
    'bundling the labextension',
    process.execPath,
    [builder, '--core-package-file', core, '.'],
    {
      cwd: checkout.extension,
      timeoutMs: 600_000,
      ...(signal ? { signal } : {})
    }
  );
  // A failed bundler leaves a folder that JupyterLab takes for an extension.
  if (await hasRemoteEntry()) return;
  throw new SetupProblem(
    'failed',
    'The labextension was bundled without an entry; run `npm run build` and look at its output.'
  );
}

async function hasRemoteEntry() {
  const folder = path.join(checkout.labextension, 'static');
  if (!existsSync(folder) || !existsSync(path.join(checkout.labextension, 'package.json'))) return false;
  return (await readdir(folder)).some(name => /^remoteEntry\..*js$/.test(name));
}
