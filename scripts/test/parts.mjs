// @ts-check
/** The parts of `npm test`, quick ones first: the runner, its arguments, and the place of its report. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { conformanceEnvironment } from '../conformance/environment.mjs';
import { SUITES } from '../conformance/suites.mjs';
import { setUp } from '../setup/set-up.mjs';
import { StagePrinter } from '../setup/stage-printer.mjs';
import { testPythons } from '../setup/test-environments.mjs';
import { TORCH_XLA_STAGES, torchPythons } from '../setup/torch-tests.mjs';
import { requireChromium } from './chromium.mjs';
import { offerSsh } from './openssh.mjs';
import { countChecks } from './counts.mjs';
import { inRoot, inTwo, NOT_LONG, playwright, pytest, reportFile, vitest } from './steps.mjs';

/**
 * @typedef {object} Selection the tests of a part that `--changed` selects
 * @property {string | null} since the commit with which the changes are compared; null: all tests run
 * @property {readonly string[]} files test files, relative to the checkout; none: all
 *
 * @typedef {object} Part
 * @property {string} name
 * @property {string} what
 * @property {number} limitMin ended when it takes longer
 * @property {number} share its budget: percent of the time of all parts together
 * @property {number} load how many cores it keeps busy, on average; parts run side by side as far as that allows
 * @property {(signal: AbortSignal, say: (text: string) => void) => Promise<unknown>} [prepare] fetches what it needs, while other
 *   parts run
 * @property {boolean} [setsUp] it runs the setup or `npm start`, which wait while something is fetched
 * @property {() => string | null} [leftOut] why it does not run unless it is named; null when it does
 * @property {(signal: AbortSignal, say: (text: string) => void, selection: Selection) => Promise<readonly Step[]>} steps
 *
 * @typedef {import('./steps.mjs').Step} Step
 */

/** @param {(text: string) => void} print */
const printerOf = print => new StagePrinter({ write: text => print(text.trimEnd()) });

/**
 * @param {readonly string[]} files test files, relative to the checkout; none: all
 * @param {string} folder that has all of them
 */
const those = (files, folder) => (files.length === 0 ? [...NOT_LONG, inRoot(folder)] : files.map(inRoot));

/** Two workers on two cores: PyTorch's own threads would wait for each other most of the time. */
const ONE_THREAD = { OMP_NUM_THREADS: '1' };

/** @type {readonly Part[]} */
export const PARTS = [
  {
    name: 'check',
    what: 'format, lint, types, layers',
    limitMin: 20,
    share: 3,
    load: 1,
    steps: async () => {
      const report = reportFile('check.json');
      return [
        {
          command: process.execPath,
          args: [inRoot('scripts/check.mjs'), '--report', report],
          report,
          count: countChecks
        }
      ];
    }
  },
  {
    name: 'unit',
    what: 'specs of protocol, server, extension and scripts',
    limitMin: 30,
    share: 9,
    load: 1.2,
    steps: async (_signal, _print, { since }) => [
      vitest(
        'unit',
        ['protocol', 'machines', 'kernel-bridge', 'extension', 'extension-dom', 'scripts', 'mocked'],
        since
      )
    ]
  },
  {
    name: 'agent',
    what: 'the Python package tpulab, in the environment with JAX',
    limitMin: 30,
    share: 11,
    load: 1,
    steps: async (_signal, _print, { files }) => [
      pytest('agent', testPythons.agent, [
        '-c',
        inRoot('kernel-agent/pyproject.toml'),
        ...those(files, 'kernel-agent/tests')
      ])
    ]
  },
  {
    name: 'server',
    what: "the Jupyter server's part of the extension",
    limitMin: 30,
    share: 4,
    load: 0.2,
    steps: async (_signal, _print, { files }) => [
      pytest('server', testPythons.server, [
        ...['-c', inRoot('extension/pyproject.toml')],
        ...those(files, 'extension/jupyterlab_tpulab')
      ])
    ]
  },
  {
    name: 'clients',
    what: 'clients in Python, as other people write them, on a real kernel',
    limitMin: 30,
    share: 4,
    load: 0.3,
    steps: async (_signal, _print, { files }) => [
      pytest('clients', testPythons.clients, those(files, 'tests/clients'))
    ]
  },
  {
    name: 'conformance',
    what: "other people's tests of a kernel server, the short form of `npm run conformance`",
    limitMin: 30,
    share: 5,
    load: 0.3,
    setsUp: true,
    steps: async (signal, print) => {
      await setUp({ stages: [conformanceEnvironment], signal, printer: printerOf(print) });
      return Promise.all(SUITES.filter(suite => suite.short).map(suite => suite.step(signal, print)));
    }
  },
  {
    name: 'recipes',
    what: 'the recipes in JAX, on eight XLA:CPU devices',
    limitMin: 35,
    share: 6,
    load: 1.2,
    steps: async (_signal, _print, { files }) => [
      pytest('recipes', testPythons.agent, [
        '-c',
        inRoot('recipes/pyproject.toml'),
        ...inTwo('loadfile'),
        ...those(files, 'recipes/tests/ddpm')
      ])
    ]
  },
  {
    name: 'integration',
    what: 'real keepers, kernels and machines',
    limitMin: 35,
    share: 21,
    load: 0.8,
    setsUp: true,
    steps: async (signal, print, { since }) => {
      await offerSsh(signal, print);
      return [vitest('integration', ['integration'], since)];
    }
  },
  {
    name: 'notebooks',
    what: 'the notebooks, run from top to bottom',
    limitMin: 30,
    share: 4,
    load: 0.8,
    steps: async (_signal, _print, { files }) => [
      pytest('notebooks', testPythons.clients, [...inTwo('loadfile'), ...those(files, 'tests/notebooks')])
    ]
  },
  {
    name: 'browser',
    what: 'JupyterLab in Chromium, with a real kernel',
    limitMin: 50,
    share: 21,
    load: 1.7,
    setsUp: true,
    steps: async (signal, print, { files }) => {
      await offerSsh(signal, print);
      return [playwright('browser', await requireChromium(signal, print), files)];
    }
  },
  {
    name: 'torch',
    what: 'PyTorch: the seam, the recipes, and notebooks 00, 02, 06 and 07, and 04 in the page (makes an environment of 8 GB)',
    limitMin: 45,
    share: 12,
    load: 1.7,
    leftOut: () =>
      process.env['TPULAB_SKIP_TORCH'] === '1' ? 'TPULAB_SKIP_TORCH=1; `npm test -- torch` runs it' : null,
    prepare: (signal, print) => setUp({ stages: TORCH_XLA_STAGES, signal, printer: printerOf(print) }),
    steps: async (signal, print) => {
      await setUp({ stages: TORCH_XLA_STAGES, signal });
      const chromium = await requireChromium(signal, print);
      const recipes = [...NOT_LONG, '-c', inRoot('recipes/pyproject.toml')];
      const folders = [
        'runtime',
        'discipline',
        'torch_training',
        'fashion_mnist',
        'resnet_profiling',
        'intents',
        'command_line',
        'audio',
        'dia',
        'english_tts',
        'gpt_sovits',
        'common',
        'ddpm_diffusers'
      ];
      // Each in a separate process: autograd counts the kinds of devices once, at the first backward pass.
      const ofAgent = ['pytorch', 'torch_xla']
        .map(folder => inRoot(`kernel-agent/tests/${folder}`))
        .filter(existsSync);
      return [
        pytest(
          'torch-recipes',
          torchPythons.torchXla,
          [...recipes, ...inTwo('loadfile'), ...folders.map(folder => inRoot(`recipes/tests/${folder}`))],
          ONE_THREAD
        ),
        // One program over several devices is chosen once per process: a separate run.
        pytest(
          'torch-spmd',
          torchPythons.torchXla,
          [...recipes, inRoot('recipes/tests/runtime/test_contract.py')],
          { TPULAB_TEST_SPMD: '1', CPU_NUM_DEVICES: '4' }
        ),
        ...ofAgent.map(folder =>
          pytest(`torch-agent-${path.basename(folder)}`, torchPythons.torchXla, [
            ...NOT_LONG,
            ...['-c', inRoot('kernel-agent/pyproject.toml')],
            ...inTwo('loadfile'),
            folder
          ])
        ),
        pytest('torch-notebooks', testPythons.clients, [
          ...NOT_LONG,
          ...inTwo('loadscope'),
          inRoot('tests/torch_notebooks')
        ]),
        playwright('torch-browser', chromium, [], { TPULAB_TORCH_PAGES: '1' })
      ];
    }
  }
];
