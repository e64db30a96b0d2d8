// @ts-check
/** The options of `npm start`. */
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { checkout } from '../setup/checkout.mjs';
import { errnoOf, SetupProblem } from '../setup/setup-problem.mjs';

export const HELP = `npm start [-- OPTIONS]

Sets up what is missing, then runs JupyterLab with the kernel bridge until Ctrl-C.

  --port N           port of JupyterLab (default: the first free one from 8888 on)
  --no-browser       print the address instead of opening a browser
  --notebook-dir D   folder to work in (default: notebooks)
  --setup-only       set up only
  --help             this text

TPULAB_PYTHON names the Python for the setup, HTTPS_PROXY a proxy.
Everything is in .tpulab and node_modules; removing both undoes the setup.`;

/** The notebook that opens first. */
export const FIRST_NOTEBOOK = '00-getting-started.ipynb';

/**
 * @typedef {object} StartOptions
 * @property {boolean} help
 * @property {number | null} port
 * @property {boolean} browser
 * @property {string} notebookDir
 * @property {boolean} setupOnly
 */

/**
 * @param {readonly string[]} argv
 * @returns {StartOptions}
 */
export function parseOptions(argv) {
  let values;
  try {
    ({ values } = parseArgs({
      args: [...argv],
      options: {
        port: { type: 'string' },
        'no-browser': { type: 'boolean', default: false },
        'notebook-dir': { type: 'string' },
        'setup-only': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false }
      }
    }));
  } catch (error) {
    const what = error instanceof Error ? (error.message.split('. ')[0] ?? '') : String(error);
    throw new SetupProblem('bad-option', `${what}; \`npm start -- --help\` lists the options.`, {
      cause: error
    });
  }
  return {
    help: values.help,
    port: values.port === undefined ? null : parsePort(values.port),
    browser: !values['no-browser'],
    notebookDir:
      values['notebook-dir'] === undefined ? checkout.notebooks : parseFolder(values['notebook-dir']),
    setupOnly: values['setup-only']
  };
}

/** @param {string} text */
function parsePort(text) {
  const port = Number(text);
  if (/^\d+$/.test(text) && port >= 1 && port <= 65535) return port;
  throw new SetupProblem('bad-option', `"${text}" is not a port; give --port a number from 1 to 65535.`);
}

/** @param {string} text */
function parseFolder(text) {
  // npm runs scripts in the root of the checkout; a relative path refers to the person's folder.
  const folder = path.resolve(process.env['INIT_CWD'] ?? process.cwd(), text);
  try {
    if (statSync(folder).isDirectory()) return folder;
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
  const why = existsSync(folder) ? 'is not a folder' : 'does not exist';
  throw new SetupProblem('bad-option', `${folder} ${why}; name an existing folder with --notebook-dir.`);
}
