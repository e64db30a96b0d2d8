/** For specs: `tpulab serve` as a separate process, to be killed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { ServeReady } from '@tpulab/protocol';
import { freePort } from './free-port.js';
import { writeKernelSpecs } from './kernelspecs.js';
import { TOKEN } from './temporary-gateway.js';

export const ENTRY = fileURLToPath(new URL('../../bin/tpulab.js', import.meta.url));

const DEADLINE_MS = 60_000;

export class GatewayProcess {
  private constructor(
    readonly child: ChildProcess,
    readonly ready: ServeReady
  ) {}

  /** Uses a port that it can reuse when it is restarted. */
  static async start(stateDir: string, port?: number): Promise<GatewayProcess> {
    const child = spawn(
      process.execPath,
      [
        ENTRY,
        'serve',
        '--state-dir',
        stateDir,
        '--root-dir',
        stateDir,
        '--env-dir',
        `${stateDir}/no-environments`,
        '--port',
        String(port ?? (await freePort()))
      ],
      {
        env: { ...process.env, TPULAB_TOKEN: TOKEN, JUPYTER_PATH: writeKernelSpecs(stateDir) },
        stdio: ['ignore', 'pipe', 'inherit']
      }
    );
    const lines = createInterface(child.stdout);
    const ended = once(child, 'exit').then(() => {
      throw new Error('`tpulab serve` ended before it was ready');
    });
    const [line] = (await Promise.race([
      once(lines, 'line', { signal: AbortSignal.timeout(DEADLINE_MS) }),
      ended
    ])) as [string];
    ended.catch(() => undefined);
    return new GatewayProcess(child, JSON.parse(line) as ServeReady);
  }

  get url(): string {
    return this.ready.url;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill(signal);
    await ended;
  }
}
