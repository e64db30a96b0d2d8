// @ts-check
/** The parts of `npm test`, quick ones first: which runner, on what, and where its report is. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { conformanceEnvironment } from '../conformance/environment.mjs';
import { SUITES } from '../conformance/suites.mjs';
import { checkout } from '../setup/checkout.mjs';
import { setUp } from '../setup/set-up.mjs';
import { StagePrinter } from '../setup/stage-printer.mjs';
import { testPythons } from '../setup/test-environments.mjs';
import { TORCH_XLA_STAGES, torchPythons } from '../setup/torch-tests.mjs';
import { requireChromium } from './chromium.mjs';
import { offerSshd } from './openssh.mjs';
import { countChecks, countJunit, countPlaywright, countVitest } from './counts.mjs';

/**
 * @typedef {object} Step one run of one runner
 * @property {string} command
 * @property {readonly string[]} args
 * @property {Readonly<Record<string, string>>} [env]
 * @property {string} [cwd] the checkout, unless given
 * @property {string} report
 * @property {(text: string) => import('./counts.mjs').Counts} count
 *
 * @typedef {object} Part
 * @property {string} name
 * @property {string} what
 * @property {number} limitMin ended when it takes longer
 * @property {boolean} [waits] more than it reckons: it runs together with neighbours of the same kind
 * @property {string} [prepareBeside] the part beside which `prepare` runs
 * @property {(signal: AbortSignal, say: (text: string) => void) => Promise<unknown>} [prepare] fetches what it needs
 * @property {() => string | null} [leftOut] why it does not run unless it is named; null when it does
 * @property {(signal: AbortSignal, say: (text: string) => void) => Promise<readonly Step[]>} steps
 */

/** @param {string} name */
const reportFile = name => path.join(checkout.reports, name);
/** @param {string} file */
const inRoot = file => path.join(checkout.root, file);

/**
 * @param {string} name of the report
 * @param {readonly string[]} projects
 * @returns {Step}
 */
function vitest(name, projects) {
  const report = reportFile(`${name}.vitest.json`);
  return {
    command: process.execPath,
    args: [
      inRoot('node_modules/vitest/vitest.mjs'),
      'run',
      ...projects.map(project => `--project=${project}`),
      ...['--reporter=dot', '--reporter=json', `--outputFile.json=${report}`]
    ],
    report,
    count: countVitest
  };
}

/**
 * @param {string} name of the report
 * @param {string} python
 * @param {readonly string[]} args
 * @param {Readonly<Record<string, string>>} [env]
 * @returns {Step}
 */
function pytest(name, python, args, env) {
  const report = reportFile(`${name}.junit.xml`);
  return {
    command: python,
    args: ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', '--color=no', `--junitxml=${report}`, ...args],
    ...(env ? { env } : {}),
    report,
    count: countJunit
  };
}

/**
 * Two processes of pytest at a time. A compiler mostly keeps one core busy; tests of one file (or class, which runs one notebook)
 * stay together, because they share what is costly to make.
 * @param {'loadfile' | 'loadscope'} together
 */
const inTwo = together => ['-n', '2', '--dist', together, '--no-loadscope-reorder'];

/**
 * @param {string} name of the report
 * @param {string} chromium
 * @param {Readonly<Record<string, string>>} [env] which files (`ui-tests/playwright.config.ts`)
 * @returns {Step}
 */
function playwright(name, chromium, env) {
  const report = reportFile(`${name}.playwright.json`);
  return {
    command: process.execPath,
    args: [
      inRoot('node_modules/@playwright/test/cli.js'),
      'test',
      ...['-c', inRoot('ui-tests/playwright.config.ts'), '--reporter=list,json']
    ],
    env: { ...env, TPULAB_CHROMIUM: chromium, PLAYWRIGHT_JSON_OUTPUT_FILE: report },
    report,
    count: countPlaywright
  };
}

/** @param {(text: string) => void} say */
const printerOf = say => new StagePrinter({ write: text => say(text.trimEnd()) });

/** @type {readonly Part[]} */
export const PARTS = [
  {
    name: 'check',
    what: 'format, lint, types, layers',
    limitMin: 10,
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
    what: 'specs of protocol, kernel bridge, extension and scripts',
    limitMin: 15,
    steps: async () => [vitest('unit', ['protocol', 'kernel-bridge', 'extension', 'scripts'])]
  },
  {
    name: 'agent',
    what: 'the Python package tpulab, in the environment with JAX',
    limitMin: 15,
    steps: async () => [
      pytest('agent', testPythons.agent, [
        '-c',
        inRoot('kernel-agent/pyproject.toml'),
        inRoot('kernel-agent/tests')
      ])
    ]
  },
  {
    name: 'server',
    what: "the Jupyter server's part of the extension",
    limitMin: 15,
    waits: true,
    steps: async () => [
      pytest('server', testPythons.server, [
        ...['-c', inRoot('extension/pyproject.toml')],
        inRoot('extension/jupyterlab_tpulab')
      ])
    ]
  },
  {
    name: 'clients',
    what: 'clients in Python, as other people write them, on a real kernel',
    limitMin: 15,
    waits: true,
    steps: async () => [pytest('clients', testPythons.clients, [inRoot('tests/clients')])]
  },
  {
    name: 'conformance',
    what: "other people's tests of a kernel server, the short form of `npm run conformance`",
    limitMin: 15,
    waits: true,
    steps: async (signal, say) => {
      await setUp({ stages: [conformanceEnvironment], signal, printer: printerOf(say) });
      return Promise.all(SUITES.filter(suite => suite.short).map(suite => suite.step(signal, say)));
    }
  },
  {
    name: 'recipes',
    what: 'the recipes in JAX, on eight XLA:CPU devices',
    limitMin: 35,
    steps: async () => [
      pytest('recipes', testPythons.agent, [
        '-c',
        inRoot('recipes/pyproject.toml'),
        ...inTwo('loadfile'),
        inRoot('recipes/tests/ddpm')
      ])
    ]
  },
  {
    name: 'integration',
    what: 'real keepers, kernels and machines',
    limitMin: 35,
    steps: async (signal, say) => {
      await offerSshd(signal, say);
      return [vitest('integration', ['integration'])];
    }
  },
  {
    name: 'notebooks',
    what: 'the notebooks, run from top to bottom',
    limitMin: 15,
    steps: async () => [
      pytest('notebooks', testPythons.clients, [...inTwo('loadfile'), inRoot('tests/notebooks')])
    ]
  },
  {
    name: 'browser',
    what: 'JupyterLab in Chromium, with a real kernel',
    limitMin: 50,
    steps: async (signal, say) => [playwright('browser', await requireChromium(signal, say))]
  },
  {
    name: 'torch',
    what: 'PyTorch on XLA: the seam, the recipes, and notebooks 00 to 04, two of them in the page (makes an environment of 8 GB)',
    limitMin: 45,
    leftOut: () =>
      process.env['TPULAB_SKIP_TORCH'] === '1' ? 'TPULAB_SKIP_TORCH=1; `npm test -- torch` runs it' : null,
    // Tests that only reckon mind a download and an unpacking beside them least.
    prepareBeside: 'recipes',
    prepare: (signal, say) => setUp({ stages: TORCH_XLA_STAGES, signal, printer: printerOf(say) }),
    steps: async (signal, say) => {
      await setUp({ stages: TORCH_XLA_STAGES, signal });
      const chromium = await requireChromium(signal, say);
      const recipes = ['-c', inRoot('recipes/pyproject.toml')];
      const folders = [
        'runtime',
        'discipline',
        'torch_training',
        'fashion_mnist',
        'resnet_profiling',
        'intents',
        'command_line',
        'ddpm_diffusers'
      ];
      const ofAgent = inRoot('kernel-agent/tests/torch_xla');
      return [
        pytest('torch-recipes', torchPythons.torchXla, [
          ...recipes,
          ...inTwo('loadfile'),
          ...folders.map(folder => inRoot(`recipes/tests/${folder}`))
        ]),
        // One program over several devices is chosen once in a process: a run of its own.
        pytest(
          'torch-spmd',
          torchPythons.torchXla,
          [...recipes, inRoot('recipes/tests/runtime/test_contract.py')],
          { TPULAB_TEST_SPMD: '1', CPU_NUM_DEVICES: '4' }
        ),
        ...(existsSync(ofAgent)
          ? [
              pytest('torch-agent', torchPythons.torchXla, [
                '-c',
                inRoot('kernel-agent/pyproject.toml'),
                ofAgent
              ])
            ]
          : []),
        pytest('torch-notebooks', testPythons.clients, [
          ...inTwo('loadscope'),
          inRoot('tests/torch_notebooks')
        ]),
        playwright('torch-browser', chromium, { TPULAB_TORCH_PAGES: '1' })
      ];
    }
  }
];
