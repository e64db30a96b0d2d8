/** `tpulab serve` of a given build as a process that can be killed, stopped and restarted on the same port. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import type { ServeReady } from '@tpulab/protocol';
import { freePort } from '../../testing/free-port.js';
import { writeKernelSpecs } from '../../testing/kernelspecs.js';
import { AGENT_SOURCES } from './bridge-build.js';
import { TOKEN } from '../../testing/temporary-gateway.js';

const DEADLINE_MS = 120_000;

interface BridgeStart {
  readonly program: string;
  readonly stateDir: string;
  /** If omitted, a port that the process can reuse at a restart. */
  readonly port?: number;
  readonly args?: readonly string[];
}

export class BridgeProcess {
  private constructor(
    readonly child: ChildProcess,
    readonly url: string
  ) {}

  static async start({ program, stateDir, port, args = [] }: BridgeStart): Promise<BridgeProcess> {
    const at = String(port ?? (await freePort()));
    const own = ['--state-dir', stateDir, '--root-dir', stateDir, '--env-dir', `${stateDir}/no-environments`];
    const child = spawn(process.execPath, [program, 'serve', ...own, '--port', at, ...args], {
      env: {
        ...process.env,
        TPULAB_TOKEN: TOKEN,
        JUPYTER_PATH: writeKernelSpecs(stateDir),
        PYTHONPATH: AGENT_SOURCES
      },
      stdio: ['ignore', 'pipe', 'inherit']
    });
    const line = once(createInterface(child.stdout), 'line', { signal: AbortSignal.timeout(DEADLINE_MS) });
    const ended = once(child, 'exit').then(() => {
      throw new Error('`tpulab serve` ended before it was ready');
    });
    ended.catch(() => undefined);
    line.catch(() => undefined);
    const [ready] = (await Promise.race([line, ended])) as [string];
    return new BridgeProcess(child, (JSON.parse(ready) as ServeReady).url);
  }

  get pid(): number {
    return this.child.pid!;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  get isRunning(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Resolves when the process has ended. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    if (!this.isRunning) return;
    const ended = once(this.child, 'exit');
    this.child.kill(signal);
    await ended;
  }

  async rest(method: string, target: string, body?: object): Promise<{ status: number; body: unknown }> {
    const response = await fetch(new URL(target, this.url), {
      method,
      headers: { authorization: `token ${TOKEN}` },
      ...(body ? { body: JSON.stringify(body) } : {})
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? null : JSON.parse(text) };
  }

  /** Ends this gateway and its kernels cleanly. */
  static async stopAll(program: string, stateDir: string): Promise<void> {
    await promisify(execFile)(process.execPath, [program, 'stop', '--kernels', '--state-dir', stateDir]);
  }
}
