/** For specs: a stock jupyter_server, to compare its answers on the routes that we share. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeKernelSpecs } from './kernelspecs.js';
import { TOKEN } from './temporary-gateway.js';

const PYTHON = fileURLToPath(new URL('../../../.tpulab/lab/bin/python', import.meta.url));
const DEADLINE_MS = 120_000;
const POLL_MS = 100;
const END_MS = 5000;

export class JupyterServer implements AsyncDisposable {
  private constructor(
    readonly url: string,
    readonly folder: string,
    private readonly child: ChildProcess
  ) {}

  static async start(): Promise<JupyterServer> {
    const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    const runtime = path.join(folder, 'runtime');
    const settings = {
      'ServerApp.ip': '127.0.0.1',
      // The server chooses a free port itself: one that was free a moment ago may be in use now.
      'ServerApp.port': '0',
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
          JUPYTER_RUNTIME_DIR: runtime
        },
        stdio: 'ignore'
      }
    );
    const deadline = performance.now() + DEADLINE_MS;
    for (;;) {
      const url = await urlIn(path.join(runtime, `jpserver-${child.pid ?? 0}.json`));
      if (url !== null && (await answers(url))) return new JupyterServer(url, folder, child);
      if (child.exitCode !== null || performance.now() > deadline) {
        await new JupyterServer('', folder, child)[Symbol.asyncDispose]();
        throw new Error('jupyter_server did not start');
      }
      await new Promise(resolve => setTimeout(resolve, POLL_MS));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const ended = once(this.child, 'exit');
      this.child.kill('SIGTERM');
      // A server that was busy with kernels does not always end on its own.
      const timer = setTimeout(() => this.child.kill('SIGKILL'), END_MS);
      await ended;
      clearTimeout(timer);
    }
    // A kernel that is ending may still write.
    await rm(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

/** A server's URL once it listens; null before. */
async function urlIn(infoFile: string): Promise<string | null> {
  try {
    return (JSON.parse(await readFile(infoFile, 'utf8')) as { url: string }).url;
  } catch {
    // The file does not exist yet, or is incomplete.
    return null;
  }
}

function answers(url: string): Promise<boolean> {
  return fetch(new URL('api', url)).then(
    answer => answer.ok,
    () => false
  );
}
