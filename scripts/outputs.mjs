// @ts-check
/**
 * `npm run test:outputs`: the outputs of third-party packages in the session page, in JupyterLab with the extension and in a stock
 * JupyterLab, with the packages of environments/outputs. Writes docs/outputs-shown.md. Arguments go to Playwright (`-g NAME`).
 */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from './setup/checkout.mjs';
import { pythonIn, UV_ENV } from './setup/python-environment.mjs';
import { runOrExplain } from './setup/run-command.mjs';
import { setUp, START_STAGES } from './setup/set-up.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';
import { testInBrowser, versionsIn } from './test/browser-lane.mjs';
import { inRoot } from './test/steps.mjs';

const SHOWN = [
  'altair',
  'anywidget',
  'bokeh',
  'bqplot',
  'great-tables',
  'ipydatagrid',
  'ipympl',
  'itables',
  'k3d',
  'plotly',
  'rich',
  'seaborn',
  'sympy',
  'tqdm',
  'jupyterlab'
];

const controller = new AbortController();
process.once('SIGINT', () => controller.abort());
process.once('SIGTERM', () => controller.abort());
const { signal } = controller;
const print = (/** @type {string} */ text) => process.stdout.write(`${text}\n`);
try {
  await setUp({ stages: START_STAGES, signal });
  const place = path.join(checkout.testEnvs, 'outputs');
  const uv = (/** @type {string[]} */ ...args) =>
    runOrExplain('making the environment with the packages', checkout.uv, args, { signal, env: UV_ENV });
  const venv = [
    'venv',
    '--no-project',
    '--no-config',
    '--allow-existing',
    '--python',
    pythonIn(checkout.lab)
  ];
  await uv(...venv, place);
  const lock = inRoot('environments/outputs/requirements.lock');
  await uv('pip', 'sync', '--no-config', '--python', pythonIn(place), lock);
  await writeFile(path.join(place, 'versions.txt'), await versionsIn(place, SHOWN, signal));
  const env = {
    TPULAB_OUTPUTS: '1',
    TPULAB_STOCK_LAB: pythonIn(place),
    // The kernels of the session page and of JupyterLab come from the packages.
    TPULAB_ENV_DIR: path.join(place, 'no-environments'),
    JUPYTER_PATH: path.join(place, 'share', 'jupyter'),
    PATH: `${path.dirname(pythonIn(place))}${path.delimiter}${process.env['PATH'] ?? ''}`
  };
  const works = await testInBrowser({ place, args: process.argv.slice(2), env }, signal, print);
  process.exitCode = works ? 0 : 1;
} catch (error) {
  if (!(error instanceof SetupProblem)) throw error;
  print([error.message, ...error.details].join('\n'));
  process.exitCode = 1;
}
