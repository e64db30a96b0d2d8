/** One JupyterLab for tests: its own port, notebooks, settings and bridge state. Ends everything it started. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from './free-port.js';
import { type Breakage, prepareLabextensions } from './labextension.js';
import { copyNotebooks } from './copy-notebooks.js';
import { BRIDGE_ENTRY, CHECKOUT, ENV_DIR, LAB_ENV } from './paths.js';
import { DEADLINE_MS, hasEnded, isAlive, serves, waitUntil } from './processes.js';

export interface LabOptions {
  /** Galata's helpers, which need a server without a token. */
  readonly galata: boolean;
  /** Notebook 7 instead of JupyterLab. */
  readonly app?: 'notebook';
  /** Breaks our extension in this way. */
  readonly breakage?: Breakage;
  /** Further variables of its environment: another home folder, another PATH. */
  readonly env?: Readonly<Record<string, string>>;
  /** Command of the bridge instead of the real one. */
  readonly bridgeCommand?: readonly string[];
}

/** The content of `<state>/gateway.json` (docs/architecture.md). */
interface GatewayFile {
  readonly url: string;
  readonly pid: number;
}

export class LabServer {
  static async start(options: LabOptions): Promise<LabServer> {
    const folder = await mkdtemp(join(tmpdir(), 'tpulab-ui-'));
    const server = new LabServer(folder, await freePort(), options);
    try {
      await server.#launch();
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  readonly #options: LabOptions;
  readonly #folder: string;
  readonly #port: number;
  readonly #token = randomBytes(16).toString('hex');
  #child: ChildProcess | null = null;

  private constructor(folder: string, port: number, options: LabOptions) {
    this.#folder = folder;
    this.#port = port;
    this.#options = options;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Address that logs the browser in. */
  get loginUrl(): string {
    return this.#options.galata ? `${this.url}/lab` : `${this.url}/lab?token=${this.#token}`;
  }

  get stateDir(): string {
    return join(this.#folder, 'state');
  }

  get rootDir(): string {
    return join(this.#folder, 'notebooks');
  }

  /** The running gateway. */
  async gateway(): Promise<GatewayFile> {
    return waitUntil('A running gateway', async () => {
      const text = await readFile(join(this.stateDir, 'gateway.json'), 'utf8').catch(() => null);
      const file = text === null ? null : (JSON.parse(text) as GatewayFile);
      return file && isAlive(file.pid) ? file : null;
    });
  }

  /** How a program of this user reaches the gateway, once the gateway has found its kernels. */
  async reach(): Promise<{ url: string; token: string }> {
    return waitUntil('A gateway that serves', async () => {
      const { url } = await this.gateway();
      const token = (await readFile(join(this.stateDir, 'token'), 'utf8')).trim();
      return (await serves(url, token)) ? { url, token } : null;
    });
  }

  /** Ends the gateway as a crash would, and waits for the next one. */
  async killGateway(): Promise<{ before: GatewayFile; after: GatewayFile }> {
    const before = await this.gateway();
    process.kill(before.pid, 'SIGKILL');
    const after = await waitUntil('The next gateway', async () => {
      const file = await this.gateway();
      return file.pid === before.pid ? null : file;
    });
    return { before, after };
  }

  /** Breaks our extension in another way. A page gets it at its next load: Lab reads the files then. */
  async breakExtension(breakage: Breakage): Promise<void> {
    const folder = join(this.#folder, 'labextensions');
    await rm(folder, { recursive: true });
    await prepareLabextensions(folder, breakage);
  }

  /** What Lab has logged so far. */
  async log(): Promise<string> {
    return readFile(join(this.#folder, 'lab.log'), 'utf8');
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child && !hasEnded(child)) {
      child.kill('SIGTERM');
      await waitUntil('The end of JupyterLab', () => Promise.resolve(hasEnded(child) || null)).catch(() =>
        child.kill('SIGKILL')
      );
    }
    // After an orderly end there is nothing to stop; after a crash this ends kernels that outlived it.
    await promisify(execFile)(process.execPath, [
      BRIDGE_ENTRY,
      'stop',
      '--kernels',
      '--state-dir',
      this.stateDir
    ]).catch(() => undefined);
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 20 });
  }

  async #launch(): Promise<void> {
    const place = (name: string): string => join(this.#folder, name);
    await mkdir(this.stateDir, { mode: 0o700 });
    await copyNotebooks(this.rootDir);
    await prepareLabextensions(place('labextensions'), this.#options.breakage);
    const given = {
      galata: this.#options.galata,
      port: this.#port,
      rootDir: this.rootDir,
      labextensions: place('labextensions'),
      workspaces: place('workspaces'),
      userSettings: place('settings')
    };
    const config = join(CHECKOUT, 'ui-tests', 'lab', 'jupyter_config.py');
    const child = spawn(
      join(LAB_ENV, 'bin', 'python'),
      ['-m', this.#options.app ?? 'jupyterlab', `--config=${config}`],
      {
        cwd: this.#folder,
        env: {
          ...process.env,
          ...this.#options.env,
          TPULAB_UI_TEST: JSON.stringify(given),
          TPULAB_STATE_DIR: this.stateDir,
          TPULAB_ENV_DIR: ENV_DIR,
          TPULAB_BRIDGE_COMMAND: JSON.stringify(
            this.#options.bridgeCommand ?? [process.execPath, BRIDGE_ENTRY]
          ),
          JUPYTER_TOKEN: this.#token,
          JUPYTER_CONFIG_DIR: place('config'),
          JUPYTER_DATA_DIR: place('data'),
          JUPYTER_RUNTIME_DIR: place('runtime'),
          IPYTHONDIR: place('ipython'),
          // The package under test is this checkout's, whatever is installed.
          PYTHONPATH: join(CHECKOUT, 'extension')
        },
        stdio: ['ignore', 'pipe', 'pipe']
      }
    );
    this.#child = child;
    const log = createWriteStream(place('lab.log'));
    child.stdout.pipe(log);
    child.stderr.pipe(log);
    await waitUntil(
      'JupyterLab',
      async () => {
        if (hasEnded(child)) throw new Error(`JupyterLab ended at once:\n${await this.log()}`);
        const headers = { Authorization: `token ${this.#token}` };
        const response = await fetch(`${this.url}/api/status`, { headers }).catch(() => null);
        return response?.ok ? response : null;
      },
      DEADLINE_MS
    );
  }
}
