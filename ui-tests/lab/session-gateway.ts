/** One gateway for tests of the session page: its own port, notebooks and state. Ends everything it started. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.js';
import { BRIDGE_ENTRY, ENV_DIR } from './paths.js';
import { hasEnded, serves, waitUntil } from './processes.js';

export class SessionGateway {
  static async start(env: Readonly<Record<string, string>> = {}): Promise<SessionGateway> {
    const folder = await mkdtemp(join(tmpdir(), 'tpulab-session-'));
    await mkdir(join(folder, 'notebooks'));
    const gateway = new SessionGateway(folder, await freePort(), env);
    await gateway.restart();
    return gateway;
  }

  readonly token = randomBytes(16).toString('hex');
  #child: ChildProcess | null = null;

  private constructor(
    readonly folder: string,
    readonly port: number,
    private readonly env: Readonly<Record<string, string>>
  ) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  /** Address of the page, with a notebook. */
  link(notebook = ''): string {
    return `${this.url}session/${encodeURIComponent(notebook)}#token=${this.token}`;
  }

  async restart(): Promise<void> {
    this.#child = spawn(
      process.execPath,
      [
        ...[BRIDGE_ENTRY, 'serve', '--port', String(this.port), '--state-dir', join(this.folder, 'state')],
        ...['--root-dir', join(this.folder, 'notebooks'), '--env-dir', ENV_DIR]
      ],
      { env: { ...process.env, ...this.env, TPULAB_TOKEN: this.token }, stdio: 'ignore' }
    );
    await waitUntil('A gateway that serves', async () =>
      (await serves(this.url, this.token)) ? true : null
    );
  }

  /** Like a power failure: kernels and their keepers continue to run. */
  async kill(): Promise<void> {
    this.#child?.kill('SIGKILL');
    if (this.#child && !hasEnded(this.#child)) await once(this.#child, 'exit');
  }

  async write(notebook: string, text: string): Promise<void> {
    await writeFile(join(this.folder, 'notebooks', notebook), text);
  }

  read(notebook: string): Promise<string> {
    return readFile(join(this.folder, 'notebooks', notebook), 'utf8');
  }

  /** Milliseconds, with fractions: differs after each write of the file. */
  async writtenAt(notebook: string): Promise<number> {
    return (await stat(join(this.folder, 'notebooks', notebook))).mtimeMs;
  }

  request(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(new URL(path, this.url), { ...init, headers: { authorization: `token ${this.token}` } });
  }

  async stop(): Promise<void> {
    // A failed test may have left it killed: then its kernels would remain.
    if (this.#child === null || hasEnded(this.#child)) await this.restart();
    const kernels = (await (await this.request('api/kernels')).json()) as { id: string }[];
    await Promise.all(kernels.map(({ id }) => this.request(`api/kernels/${id}`, { method: 'DELETE' })));
    this.#child?.kill('SIGTERM');
    if (this.#child && !hasEnded(this.#child)) await once(this.#child, 'exit');
    await rm(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }
}
