// @ts-check
/** Runs JupyterLab with our extension, and ends it with all its processes. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, open, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { checkout, shown } from '../setup/checkout.mjs';
import { pythonIn } from '../setup/python-environment.mjs';
import { Interrupted, SetupProblem } from '../setup/setup-problem.mjs';
import { Descendants, MARK } from './descendants.mjs';
import { FIRST_NOTEBOOK } from './options.mjs';

/** JupyterLab answers in seconds; a machine under load may need more. */
const READY_WAIT_MS = 120_000;
/** An orderly shutdown of kernels takes its time; remaining processes are ended afterwards. */
const STOP_WAIT_MS = 25_000;
const LEFTOVER_WAIT_MS = 5000;
const POLL_MS = 100;

const jupyterState = path.join(checkout.state, 'jupyter');
const runtime = path.join(jupyterState, 'runtime');
export const logFile = path.join(checkout.state, 'jupyter.log');

export class Jupyter {
  #child;
  #mark;
  #ended;
  #notebookDir;
  #stopping = false;

  /**
   * @param {import('node:child_process').ChildProcess} child
   * @param {string} mark
   * @param {string} notebookDir
   */
  constructor(child, mark, notebookDir) {
    this.#child = child;
    this.#mark = mark;
    this.#notebookDir = notebookDir;
    this.#ended = new Promise(resolve => {
      child.once('error', resolve);
      child.once('exit', resolve);
    });
  }

  get mark() {
    return this.#mark;
  }

  get pid() {
    return this.#child.pid;
  }

  /**
   * Starts JupyterLab; `ready` is called when it responds.
   *
   * @param {{ port: number, browser: boolean, notebookDir: string }} options
   */
  static async start({ port, browser, notebookDir }) {
    for (const folder of [checkout.state, jupyterState, runtime]) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
    }
    const mark = randomUUID();
    // Jupyter writes its address, token included, into its log.
    const log = await open(logFile, 'w', 0o600);
    try {
      const child = spawn(pythonIn(checkout.lab), jupyterArguments({ port, browser, notebookDir }), {
        cwd: notebookDir,
        env: jupyterEnvironment(mark),
        stdio: ['ignore', log.fd, log.fd],
        // A separate session: Ctrl-C on the terminal reaches only us, and Jupyter gets the signal that it handles
        // without a question.
        detached: true
      });
      return new Jupyter(child, mark, notebookDir);
    } finally {
      await log.close();
    }
  }

  /**
   * @param {AbortSignal} signal
   * @returns {Promise<string>} the address, with the token
   */
  async ready(signal) {
    const file = path.join(runtime, `jpserver-${this.pid ?? 0}.json`);
    const end = performance.now() + READY_WAIT_MS;
    for (;;) {
      if (signal.aborted) throw new Interrupted();
      if (this.hasEnded) throw await this.#failure('JupyterLab ended while it was starting');
      const server = await readServerFile(file);
      if (server && (await answers(server.url, signal))) return addressOf(server, this.#notebookDir);
      if (performance.now() > end) throw await this.#failure('JupyterLab does not answer');
      await delay(POLL_MS);
    }
  }

  get hasEnded() {
    return this.#child.exitCode !== null || this.#child.signalCode !== null || this.#child.pid === undefined;
  }

  /**
   * Resolves at the signal, or rejects when Jupyter ends without one.
   *
   * @param {AbortSignal} signal
   */
  async untilAborted(signal) {
    const aborted = new Promise(resolve => {
      if (signal.aborted) resolve(undefined);
      else signal.addEventListener('abort', resolve, { once: true });
    });
    await Promise.race([aborted, this.#ended]);
    if (!signal.aborted && !this.#stopping) throw await this.#failure('JupyterLab ended');
  }

  /** Ends Jupyter, which ends the bridge and the kernels, then their remaining processes. */
  async stop() {
    this.#stopping = true;
    const descendants = new Descendants(this.#mark);
    // While all run: a keeper is known by its relatives.
    await descendants.refresh();
    if (!this.hasEnded) {
      this.#child.kill('SIGTERM');
      await Promise.race([this.#ended, delay(STOP_WAIT_MS, undefined, { ref: false })]);
    }
    await descendants.end(LEFTOVER_WAIT_MS);
  }

  /** @param {string} what */
  async #failure(what) {
    const lines = (await readFile(logFile, 'utf8').catch(() => '')).split('\n').filter(line => line !== '');
    const taken = lines.some(line => /address already in use|port \d+ is already in use/i.test(line));
    if (taken) {
      return new SetupProblem(
        'port-taken',
        'Another program took the port meanwhile; start again, or use --port.'
      );
    }
    return new SetupProblem(
      'jupyter',
      `${what}; the end of ${shown(logFile)} is below, see there for more.`,
      {
        details: lines.slice(-12).map(withoutToken)
      }
    );
  }
}

/** @param {{ port: number, browser: boolean, notebookDir: string }} options */
function jupyterArguments({ port, browser, notebookDir }) {
  return [
    ...['-m', 'jupyterlab', '--ServerApp.ip=127.0.0.1', `--ServerApp.port=${port}`],
    // Otherwise Jupyter would silently use another port.
    '--ServerApp.port_retries=0',
    `--ServerApp.root_dir=${notebookDir}`,
    // The application's own default URL takes precedence over the server's.
    `--LabApp.default_url=${firstPath(notebookDir)}`,
    `--ServerApp.open_browser=${browser ? 'True' : 'False'}`,
    // As root, in a container, Jupyter refuses otherwise.
    ...(process.getuid?.() === 0 ? ['--ServerApp.allow_root=True'] : [])
  ];
}

/**
 * The file that opens first: the getting-started notebook, if it exists.
 *
 * @param {string} notebookDir
 */
function firstPath(notebookDir) {
  return existsSync(path.join(notebookDir, FIRST_NOTEBOOK)) ? `/lab/tree/${FIRST_NOTEBOOK}` : '/lab';
}

/** @param {string} mark */
function jupyterEnvironment(mark) {
  const env = { ...process.env };
  // npm's own settings are useless to kernels, and may contain credentials of registries.
  for (const name of Object.keys(env))
    if (/^npm_|^INIT_CWD$|^PYTHONHOME$|^PYTHONPATH$|^TPULAB_START_STATE$/.test(name)) delete env[name];
  return {
    ...env,
    PATH: [path.join(checkout.lab, 'bin'), env['PATH']].filter(Boolean).join(path.delimiter),
    TPULAB_BRIDGE_COMMAND: JSON.stringify([process.execPath, checkout.bundledCli]),
    TPULAB_ENV_DIR: checkout.envs,
    TPULAB_STATE_DIR: path.join(checkout.state, 'bridge'),
    JUPYTER_CONFIG_DIR: path.join(jupyterState, 'config'),
    JUPYTER_RUNTIME_DIR: runtime,
    JUPYTERLAB_SETTINGS_DIR: path.join(jupyterState, 'settings'),
    JUPYTERLAB_WORKSPACES_DIR: path.join(jupyterState, 'workspaces'),
    [MARK]: mark
  };
}

/**
 * @typedef {object} ServerFile
 * @property {string} url
 * @property {string} token
 */

/**
 * @param {string} file
 * @returns {Promise<ServerFile | null>} null: not written yet
 */
async function readServerFile(file) {
  try {
    const { url, token } = JSON.parse(await readFile(file, 'utf8'));
    return typeof url === 'string' && typeof token === 'string' ? { url, token } : null;
  } catch {
    return null;
  }
}

/**
 * @param {string} url
 * @param {AbortSignal} signal
 */
async function answers(url, signal) {
  try {
    const answer = await fetch(new URL('api', url), {
      signal: AbortSignal.any([signal, AbortSignal.timeout(2000)])
    });
    await answer.arrayBuffer();
    return answer.ok;
  } catch {
    return false;
  }
}

/**
 * @param {ServerFile} server
 * @param {string} notebookDir
 */
function addressOf({ url, token }, notebookDir) {
  const address = new URL(firstPath(notebookDir).slice(1), url);
  if (token !== '') address.searchParams.set('token', token);
  return address.href;
}

/** @param {string} line */
function withoutToken(line) {
  return line.replace(/token=[0-9a-f]+/g, 'token=…');
}
