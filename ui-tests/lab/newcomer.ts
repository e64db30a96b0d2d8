/**
 * The product right after cloning: started by `npm start`, with its own home folder, a PATH with the programs that the
 * README requires, and no variable of ours. Nothing else installed on this machine may help.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { freePort } from './free-port.js';
import { copyNotebooks } from './copy-notebooks.js';
import { CHECKOUT } from './paths.js';
import { hasEnded, waitUntil } from './processes.js';

/** How this machine reaches a package index, and its trusted certificates: a newcomer's network is the machine's. */
const OF_THE_NETWORK =
  /^(\w+_proxy|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS|(PIP|UV)_(INDEX|EXTRA|FIND|DEFAULT)\w*|PIP_CERT)$/i;
/** System folders for programs; Node and Python may be elsewhere. */
const SYSTEM = ['/usr/bin', '/bin', '/usr/sbin', '/sbin'];
const OF_THE_README = ['node', 'npm', 'npx', 'python3'];
const NOT_REQUIRED = /^(uvx?|tpulab|jupyter.*)$/;

export class Newcomer {
  readonly #folder: string;
  readonly #env: Readonly<Record<string, string>>;
  #child: ChildProcess | null = null;
  #output = '';

  /** @param home folder of its ssh keys @param bin further programs: ssh, gcloud */
  static async start(home: string, bin: string): Promise<Newcomer> {
    const folder = await mkdtemp(join(tmpdir(), 'tpulab-newcomer-'));
    await linkPrograms(join(folder, 'bin'));
    const newcomer = new Newcomer(folder, {
      ...Object.fromEntries(
        Object.entries(process.env).flatMap(([name, value]) =>
          value !== undefined && OF_THE_NETWORK.test(name) ? [[name, value]] : []
        )
      ),
      HOME: home,
      PATH: [bin, join(folder, 'bin')].join(delimiter),
      LANG: 'C.UTF-8'
    });
    try {
      await newcomer.#start();
    } catch (error) {
      await newcomer.stop();
      throw error;
    }
    return newcomer;
  }

  private constructor(folder: string, env: Readonly<Record<string, string>>) {
    this.#folder = folder;
    this.#env = env;
  }

  get rootDir(): string {
    return join(this.#folder, 'notebooks');
  }

  /** Address of a page of Lab, with the token; only `path` is open in it. */
  url(path = ''): string {
    const address = new URL(this.#printed!);
    address.pathname = path === '' ? '/lab' : `/lab/tree/${path}`;
    address.searchParams.set('reset', '');
    return address.href;
  }

  /** Runs the checkout's command in another terminal; returns its output. Rejects with its error message. */
  async tpulab(...args: string[]): Promise<string> {
    const child = spawn('npx', ['tpulab', ...args], { cwd: CHECKOUT, env: this.#env });
    let [output, complaint] = ['', ''];
    child.stdout.on('data', chunk => (output += String(chunk)));
    child.stderr.on('data', chunk => (complaint += String(chunk)));
    const code = await new Promise(resolve => child.once('close', resolve));
    if (code !== 0) throw new Error(`tpulab ${args.join(' ')} ended with ${String(code)}: ${complaint}`);
    return output;
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child && !hasEnded(child)) {
      child.kill('SIGINT');
      await waitUntil('The end of npm start', () => Promise.resolve(hasEnded(child) || null));
    }
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 20 });
  }

  get #printed(): string | undefined {
    return /http:\/\/\S+token=\S+/.exec(this.#output)?.[0];
  }

  async #start(): Promise<void> {
    const state = join(this.#folder, 'state');
    await copyNotebooks(this.rootDir);
    await mkdir(join(state, 'jupyter', 'config'), { recursive: true, mode: 0o700 });
    // Tests access the application through `window.jupyterapp`.
    await writeFile(
      join(state, 'jupyter', 'config', 'jupyter_lab_config.py'),
      'c.LabApp.expose_app_in_browser = True  # noqa: F821\n'
    );
    const port = String(await freePort());
    const args = ['--no-browser', '--port', port, '--notebook-dir', this.rootDir];
    // Only the place of npm start's state: the variable is for tests, and npm start passes it on to no other process.
    const env = { ...this.#env, TPULAB_START_STATE: state };
    const child = spawn('node', [join('scripts', 'start.mjs'), ...args], { cwd: CHECKOUT, env });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', chunk => (this.#output += String(chunk)));
    await waitUntil('npm start', () => {
      if (hasEnded(child)) throw new Error(`npm start ended:\n${this.#output}`);
      return Promise.resolve(this.#printed ?? null);
    });
  }
}

/** A folder with the system's programs, and the first Node and Python on PATH; nothing of ours and no uv. */
async function linkPrograms(folder: string): Promise<void> {
  await mkdir(folder);
  const programs = new Map<string, string>();
  const path = (process.env['PATH'] ?? '').split(delimiter);
  for (const name of OF_THE_README) {
    const found = path.map(place => join(place, name)).find(isExecutable);
    if (found !== undefined) programs.set(name, found);
  }
  for (const place of SYSTEM) {
    for (const name of await readdir(place).catch(() => [])) {
      if (!programs.has(name) && !NOT_REQUIRED.test(name)) programs.set(name, join(place, name));
    }
  }
  await Promise.all([...programs].map(([name, file]) => symlink(file, join(folder, name))));
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
