/** A stock JupyterLab with its own kernels, or with kernels at a bridge over a connection that can be broken. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../lab/free-port.js';
import { BRIDGE_ENTRY } from '../lab/paths.js';
import { hasEnded, waitUntil } from '../lab/processes.js';
import { BreakableProxy } from './breakable-proxy.js';

/**
 * - `direct`: the page's sockets go to the bridge; only REST goes through Lab's server
 * - `gateway`: everything goes through Lab's server, as with `--gateway-url` alone
 * - `none`: no bridge; Lab's server runs the kernels, as in every stock installation
 */
export type Sockets = 'direct' | 'gateway' | 'none';

function labPython(): string {
  const python = process.env['TPULAB_STOCK_LAB'];
  if (python === undefined || python === '') {
    throw new Error(
      'TPULAB_STOCK_LAB must name the Python of a stock JupyterLab; `npm run conformance` does.'
    );
  }
  return python;
}

export class StockLab implements AsyncDisposable {
  static async start(sockets: Sockets): Promise<StockLab> {
    const lab = new StockLab(await mkdtemp(join(tmpdir(), 'tpulab-stock-')));
    try {
      await lab.#launch(sockets);
    } catch (error) {
      await lab[Symbol.asyncDispose]();
      throw error;
    }
    return lab;
  }

  readonly #folder: string;
  readonly #token = randomBytes(16).toString('hex');
  readonly #children: ChildProcess[] = [];
  #proxy: BreakableProxy | null = null;
  #port = 0;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  get rootDir(): string {
    return join(this.#folder, 'notebooks');
  }

  /** The proxy between the bridge and all its clients. */
  get connection(): BreakableProxy {
    if (!this.#proxy) throw new Error('The Lab has not been started.');
    return this.#proxy;
  }

  /** Address of a notebook that logs the browser in. */
  notebookUrl(name: string): string {
    return `http://127.0.0.1:${this.#port}/lab/tree/${name}?token=${this.#token}`;
  }

  /** The bridge's data about a running kernel. */
  async kernels(): Promise<{ id: string; execution_state: string }[]> {
    const response = await fetch(`http://127.0.0.1:${this.connection.port}/api/kernels`, {
      headers: { Authorization: `token ${this.#token}` }
    });
    return (await response.json()) as { id: string; execution_state: string }[];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await promisify(execFile)(process.execPath, [
      BRIDGE_ENTRY,
      ...['stop', '--kernels', '--state-dir', this.#place('state')]
    ]).catch(() => undefined);
    for (const child of this.#children) {
      if (!hasEnded(child)) child.kill('SIGTERM');
      await waitUntil('The end of a process', async () => hasEnded(child) || null).catch(() =>
        child.kill('SIGKILL')
      );
    }
    await this.#proxy?.[Symbol.asyncDispose]();
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 20 });
  }

  async #launch(sockets: Sockets): Promise<void> {
    await mkdir(this.rootDir);
    this.#port = await freePort();
    const origin = `http://127.0.0.1:${this.#port}`;
    const bin = dirname(labPython());
    const environment = {
      ...process.env,
      // `python` in ipykernel's kernelspec is the Python of Lab's environment.
      PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}`,
      JUPYTER_PATH: join(bin, '..', 'share', 'jupyter'),
      JUPYTER_CONFIG_DIR: this.#place('config'),
      JUPYTER_DATA_DIR: this.#place('data'),
      JUPYTER_RUNTIME_DIR: this.#place('runtime'),
      IPYTHONDIR: this.#place('ipython')
    };
    const atBridge =
      sockets === 'none'
        ? []
        : await this.#launchBridge(environment, { origin, isDirect: sockets === 'direct' });
    this.#spawn('lab', labPython(), ['-m', 'jupyterlab'], {
      args: [
        ...['--no-browser', '--allow-root', '--ServerApp.ip=127.0.0.1', `--ServerApp.port=${this.#port}`],
        ...['--ServerApp.port_retries=0', `--ServerApp.root_dir=${this.rootDir}`],
        ...atBridge,
        ...['--LabApp.expose_app_in_browser=True', '--LabApp.news_url=None'],
        '--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate'
      ],
      env: { ...environment, JUPYTER_TOKEN: this.#token, JUPYTER_GATEWAY_AUTH_TOKEN: this.#token }
    });
    await this.#answers('lab', `${origin}/api/status`);
  }

  /** The options with which Lab's server uses the bridge. */
  async #launchBridge(
    env: NodeJS.ProcessEnv,
    { origin, isDirect }: { origin: string; isDirect: boolean }
  ): Promise<string[]> {
    const bridgePort = await freePort();
    this.#proxy = await BreakableProxy.start({ port: bridgePort });
    const { port } = this.connection;
    this.#spawn('bridge', process.execPath, [BRIDGE_ENTRY, 'serve'], {
      args: [
        ...['--port', String(bridgePort), '--state-dir', this.#place('state'), '--root-dir', this.rootDir],
        ...['--env-dir', this.#place('environments'), '--allow-origin', origin]
      ],
      env: { ...env, TPULAB_TOKEN: this.#token }
    });
    await this.#answers('bridge', `http://127.0.0.1:${port}/api/status`);
    // Another name for the same machine: only then does Lab send its token with a socket.
    const direct = `--ServerApp.websocket_url=ws://localhost:${port}/`;
    return [`--gateway-url=http://127.0.0.1:${port}`, ...(isDirect ? [direct] : [])];
  }

  #place(name: string): string {
    return join(this.#folder, name);
  }

  #spawn(
    name: string,
    command: string,
    first: readonly string[],
    { args, env }: { args: readonly string[]; env: NodeJS.ProcessEnv }
  ): void {
    const child = spawn(command, [...first, ...args], {
      cwd: this.#folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe']
    });
    this.#children.push(child);
    const log = createWriteStream(this.#place(`${name}.log`));
    child.stdout.pipe(log);
    child.stderr.pipe(log);
  }

  async #answers(name: string, url: string): Promise<void> {
    const child = this.#children.at(-1);
    await waitUntil(name, async () => {
      if (child && hasEnded(child)) {
        throw new Error(`${name} ended at once:\n${await readFile(this.#place(`${name}.log`), 'utf8')}`);
      }
      const headers = { Authorization: `token ${this.#token}` };
      const response = await fetch(url, { headers }).catch(() => null);
      return response?.ok ? response : null;
    });
  }
}
