/** For specs: a stock jupyter_server, to see what the routes that we share with it answer there. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeKernelSpecs } from './kernelspecs.js';
import { TOKEN } from './temporary-gateway.js';

const PYTHON = fileURLToPath(new URL('../../../../.tpulab/lab/bin/python', import.meta.url));
const DEADLINE_MS = 120_000;
const LOOK_MS = 100;
const END_MS = 5000;

export class JupyterServer implements AsyncDisposable {
  private constructor(
    readonly url: string,
    readonly folder: string,
    private readonly child: ChildProcess
  ) {}

  static async start(): Promise<JupyterServer> {
    const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    const port = await freePort();
    const settings = {
      'ServerApp.ip': '127.0.0.1',
      'ServerApp.port': String(port),
      'ServerApp.port_retries': '0',
      'ServerApp.root_dir': folder,
      'ServerApp.open_browser': 'False',
      'ServerApp.allow_root': 'True'
    };
    const child = spawn(
      PYTHON,
      ['-m', 'jupyter_server', ...Object.entries(settings).map(([name, value]) => `--${name}=${value}`)],
      {
        env: {
          ...process.env,
          JUPYTER_NO_CONFIG: '1',
          JUPYTER_TOKEN: TOKEN,
          JUPYTER_PATH: writeKernelSpecs(folder),
          JUPYTER_DATA_DIR: path.join(folder, 'data'),
          JUPYTER_CONFIG_DIR: path.join(folder, 'config'),
          JUPYTER_RUNTIME_DIR: path.join(folder, 'runtime')
        },
        stdio: 'ignore'
      }
    );
    const server = new JupyterServer(`http://127.0.0.1:${port}/`, folder, child);
    const deadline = performance.now() + DEADLINE_MS;
    while (!(await server.#answers())) {
      if (child.exitCode !== null || performance.now() > deadline) {
        await server[Symbol.asyncDispose]();
        throw new Error('jupyter_server did not start');
      }
      await new Promise(resolve => setTimeout(resolve, LOOK_MS));
    }
    return server;
  }

  async #answers(): Promise<boolean> {
    return fetch(new URL('api', this.url)).then(
      answer => answer.ok,
      () => false
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const ended = once(this.child, 'exit');
      this.child.kill('SIGTERM');
      // It does not always end by itself when it was busy with kernels.
      const timer = setTimeout(() => this.child.kill('SIGKILL'), END_MS);
      await ended;
      clearTimeout(timer);
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
