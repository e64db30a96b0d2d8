// @ts-check
/** The suites of `npm run conformance`: their authors, their commands, and the places of their reports. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from '../setup/checkout.mjs';
import { requireChromium } from '../test/chromium.mjs';
import { countJunit, countPlaywright } from '../test/counts.mjs';
import { conformancePython, jupyterServerTests } from './environment.mjs';

/**
 * @typedef {object} Suite
 * @property {string} name
 * @property {string} what
 * @property {number} limitMin
 * @property {boolean} short whether it belongs to the short form
 * @property {(signal: AbortSignal, say: (text: string) => void) => Promise<import('../test/steps.mjs').Step>} step
 * @property {() => Promise<number>} excluded how many tests of it are left out, with reasons
 */

const TESTS = path.join(checkout.root, 'tests');
const HERE = path.join(TESTS, 'conformance');

/** @param {string} name */
const reportFile = name => path.join(checkout.reports, name);

/**
 * @param {string} name
 * @param {readonly string[]} args
 * @returns {import('../test/steps.mjs').Step}
 */
function pytest(name, args, cwd = HERE) {
  const report = reportFile(`conformance-${name}.junit.xml`);
  return {
    command: conformancePython,
    args: ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', '--color=no', `--junitxml=${report}`, ...args],
    cwd,
    // As a separate package: `tests` is jupyter_server's name for its tests, too.
    env: { PYTHONPATH: TESTS, PYTHONDONTWRITEBYTECODE: '1' },
    report,
    count: countJunit
  };
}

/**
 * A suite of pytest that leaves tests out writes their number beside its report.
 *
 * @param {string} name
 */
async function excludedBy(name) {
  return Number(await readFile(reportFile(`conformance-${name}.junit.excluded`), 'utf8'));
}

const none = async () => 0;

/** @type {readonly Suite[]} */
export const SUITES = [
  {
    name: 'jupyter-server',
    what: "jupyter_server's own tests of kernels, sessions, kernelspecs and the API",
    limitMin: 15,
    short: true,
    step: async () =>
      pytest(
        'jupyter-server',
        [
          ...['-c', path.join(HERE, 'server_tests', 'pytest.ini'), '--rootdir', jupyterServerTests],
          // A test that its authors rerun on failure is not rerun here.
          ...['-p', 'no:flaky', '-p', 'conformance.server_tests.plugin', '--tb=short'],
          ...['api', 'kernels', 'kernelspecs', 'sessions'].map(service => `tests/services/${service}`)
        ],
        jupyterServerTests
      ),
    excluded: () => excludedBy('jupyter-server')
  },
  {
    name: 'gateway',
    what: 'jupyter_server with --gateway-url, nbclient and papermill through its gateway client',
    limitMin: 10,
    short: false,
    step: async () => pytest('gateway', [path.join(HERE, 'gateway')]),
    excluded: none
  },
  {
    name: 'kernel-test',
    what: 'jupyter_kernel_test through the gateway client',
    limitMin: 10,
    short: false,
    step: async () => pytest('kernel-test', [path.join(HERE, 'kernel_test')]),
    excluded: () => excludedBy('kernel-test')
  },
  {
    name: 'openapi',
    what: "schemathesis on Jupyter's API description and on the bridge's own",
    limitMin: 10,
    short: false,
    step: async () => pytest('openapi', [path.join(HERE, 'openapi')]),
    excluded: none
  },
  {
    name: 'stock-lab',
    what: 'JupyterLab without our extension, through outages, in Chromium',
    limitMin: 15,
    short: false,
    step: async (signal, print) => {
      const chromium = await requireChromium(signal, print);
      const report = reportFile('conformance-stock-lab.playwright.json');
      const config = path.join(checkout.root, 'ui-tests', 'stock-lab', 'playwright.config.ts');
      return {
        command: process.execPath,
        args: [
          path.join(checkout.root, 'node_modules/@playwright/test/cli.js'),
          'test',
          '-c',
          config,
          '--reporter=list,json'
        ],
        env: {
          TPULAB_CHROMIUM: chromium,
          PLAYWRIGHT_JSON_OUTPUT_FILE: report,
          TPULAB_STOCK_LAB: conformancePython
        },
        report,
        count: countPlaywright
      };
    },
    excluded: none
  }
];
