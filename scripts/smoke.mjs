// @ts-check
/**
 * `npm run test:smoke`: JupyterLab and Notebook 7 with third-party extensions beside ours, in a separate environment with their
 * newest releases. It reports and never blocks: its findings may be third-party faults. Arguments go to Playwright (`-g NAME`).
 */
import path from 'node:path';
import { checkout } from './setup/checkout.mjs';
import { pythonIn, UV_ENV } from './setup/python-environment.mjs';
import { runOrExplain } from './setup/run-command.mjs';
import { setUp, START_STAGES } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { testInBrowser, versionsIn } from './test/browser-lane.mjs';
import { inRoot } from './test/steps.mjs';

/** JupyterLab and its server keep the versions that the extension is built for. */
const PACKAGES = [
  'notebook',
  'jupyterlab-git',
  'nbdime',
  'jupyterlab-lsp',
  'jupyter-collaboration',
  'jupyter-ai',
  'jupytext'
];
/** Third-party widgets, whose Python halves the kernel needs too. Both are in the kernel's own folder, beside its packages. */
const WIDGETS = ['anywidget', 'tqdm'];
const SHOWN = ['jupyterlab', ...PACKAGES, 'anywidget'];

const controller = new AbortController();
process.once('SIGINT', () => controller.abort());
process.once('SIGTERM', () => controller.abort());
const { signal } = controller;
const print = (/** @type {string} */ text) => process.stdout.write(`${text}\n`);
try {
  await setUp({ stages: START_STAGES, signal });
  const place = path.join(checkout.testEnvs, 'smoke');
  const uv = (/** @type {string[]} */ ...args) =>
    runOrExplain('making the environment with other extensions', checkout.uv, args, { signal, env: UV_ENV });
  await uv(
    'venv',
    '--no-project',
    '--no-config',
    '--allow-existing',
    '--python',
    pythonIn(checkout.lab),
    place
  );
  const requirements = inRoot('environments/lab/requirements.in');
  await uv(
    ...['pip', 'install', '--no-config', '--upgrade', '--python', pythonIn(place)],
    ...['--requirements', requirements, ...PACKAGES, 'anywidget']
  );
  const widgets = path.join(checkout.testEnvs, 'smoke-widgets');
  await uv(
    ...['pip', 'install', '--no-config', '--upgrade', '--no-deps', '--python', pythonIn(checkout.lab)],
    ...['--target', widgets, ...WIDGETS, 'psygnal']
  );
  print(await versionsIn(place, SHOWN, signal));
  const env = { TPULAB_SMOKE: '1', TPULAB_SMOKE_WIDGETS: widgets };
  const works = await testInBrowser({ place, args: process.argv.slice(2), env }, signal, print);
  print(
    works
      ? 'TPULab works beside these packages.'
      : 'Something differs beside these packages; nothing is blocked.'
  );
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  print([error.message, ...error.details, 'Nothing was tested; nothing is blocked.'].join('\n'));
}
