/** Runs ssh, and ends it when it is no longer wanted. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { RemoteProblem } from '../remote-error.js';

/** Kept of what it wrote to standard error: enough to explain how it ended. */
const KEPT_LINES = 100;
const END_WAIT_MS = 2_000;

export interface SshProcessOptions {
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly onErrorLine?: (line: string) => void;
}

export class SshProcess {
  readonly errors: string[] = [];
  readonly child: ChildProcessWithoutNullStreams;
  /** Resolves when it has ended and all it wrote has been read. */
  readonly ended: Promise<{ readonly code: number | null }>;
  #isOver = false;

  private constructor(child: ChildProcessWithoutNullStreams, options: SshProcessOptions) {
    this.child = child;
    const stderr = createInterface({ input: child.stderr });
    stderr.on('line', line => {
      this.errors.push(line);
      if (this.errors.length > KEPT_LINES) this.errors.shift();
      options.onErrorLine?.(line);
    });
    this.ended = new Promise(resolve => {
      child.once('close', code => {
        this.#isOver = true;
        resolve({ code });
      });
    });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** @throws RemoteProblem `remote_ssh_missing` */
  static async start(options: SshProcessOptions): Promise<SshProcess> {
    // A session of its own: Ctrl+C in the gateway's terminal ends it through us, and it finds no terminal to ask on.
    const child = spawn(options.program, options.args, {
      detached: true,
      env: options.env
    });
    // A pipe that breaks is told by the end of the program.
    child.stdin.on('error', () => undefined);
    child.stdout.on('error', () => undefined);
    const started = new SshProcess(child, options);
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', cause => {
        reject(
          new RemoteProblem(
            'remote_ssh_missing',
            `The program ssh cannot be started (${(cause as NodeJS.ErrnoException).code ?? cause.message}); install OpenSSH, or put it on the PATH of the gateway.`,
            { cause }
          )
        );
      });
    });
    child.on('error', () => undefined);
    return started;
  }

  async end(): Promise<void> {
    if (this.isOver) return;
    const { child } = this;
    // The connection that it used has been handed its pipes, and holds them for as long as the program on the host runs.
    const letGo = (): void => {
      child.stdout.destroy();
      child.stderr.destroy();
    };
    if (child.exitCode !== null || child.signalCode !== null) letGo();
    else child.once('exit', letGo);
    this.#signal('SIGTERM');
    const timer = setTimeout(() => this.#signal('SIGKILL'), END_WAIT_MS);
    await this.ended;
    clearTimeout(timer);
  }

  /** The whole group: a ProxyCommand must not stay behind. */
  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      this.child.kill(signal);
    }
  }
}
