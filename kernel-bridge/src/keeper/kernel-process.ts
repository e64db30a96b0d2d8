/** The operating system's side of a kernel: one process that leads a session and a process group of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { KILL_MS, type LaunchDescription } from '../keeper-protocol/contract.js';
import { processEnd } from '../platform/process-end.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';

export interface KernelExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** A file beside the notebook that Python has taken for a module of its own or of the kernel, where that ended it. */
  readonly hiding?: string | undefined;
}

export interface KernelFiles {
  readonly connectionFile: string;
  readonly kernelLog: string;
  readonly agentSocket: string;
}

const GROUP_POLL_MS = 20;

/** How long the rest of a killed group may take to be collected by init before we stop looking. */
const GROUP_GONE_MS = 2_000;

export class KernelProcess {
  /** Resolves when the process has ended and has been collected, so that its pid means nothing any more. */
  readonly exited: Promise<KernelExit>;
  #running = true;

  private constructor(
    readonly pid: number,
    exit: Promise<KernelExit>
  ) {
    this.exited = exit.then(how => {
      this.#running = false;
      // What the kernel started would keep the devices; nobody is left to ask it to end.
      this.#killGroup('SIGKILL');
      return how;
    });
  }

  /** A process that another keeper has started, known by its `processStart`. How it ends, only its parent can learn. */
  static adopt(pid: number, start: string): KernelProcess {
    return new KernelProcess(pid, endOf(pid, start));
  }

  /** Rejects with `kernel_start_failed` when the program cannot be run. */
  static async start(launch: LaunchDescription, files: KernelFiles): Promise<KernelProcess> {
    const [program = '', ...args] = launch.argv.map(argument => fillIn(argument, launch, files));
    const log = openSync(files.kernelLog, 'a', 0o600);
    let child: ChildProcess;
    try {
      child = spawn(program, args, {
        cwd: launch.cwd,
        env: kernelEnv(launch, files),
        detached: true,
        stdio: ['ignore', log, log]
      });
    } finally {
      closeSync(log);
    }
    const exit = new Promise<KernelExit>(resolve => {
      child.once('exit', (code, signal) => {
        resolve({ code, signal, ...(code === 1 && { hiding: hidingFile(files.kernelLog, launch.cwd) }) });
      });
    });
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', cause =>
        reject(
          new KeeperError(
            'kernel_start_failed',
            `Kernel "${launch.displayName}" cannot be started: ${program} in ${launch.cwd}: ${cause.message}; check its kernelspec.`,
            { cause }
          )
        )
      );
    });
    const { pid } = child;
    if (pid === undefined) {
      throw new KeeperError(
        'kernel_start_failed',
        `Kernel "${launch.displayName}" has started without a process id.`
      );
    }
    return new KernelProcess(pid, exit);
  }

  get running(): boolean {
    return this.#running;
  }

  /** To the whole group: what a cell has started is to stop with the cell. */
  signal(signal: NodeJS.Signals): void {
    if (this.#running) {
      this.#killGroup(signal);
    }
  }

  /** True when the process has ended by then. */
  async endsWithin(ms: number): Promise<boolean> {
    const cancel = new AbortController();
    try {
      return await Promise.race([
        this.exited.then(() => true),
        delay(ms, false, { signal: cancel.signal }).catch(() => false)
      ]);
    } finally {
      cancel.abort();
    }
  }

  /** The last step, which no process can refuse. Resolves when the group has gone. */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    if (!(await this.endsWithin(KILL_MS))) {
      throw new KeeperError(
        'kernel_unkillable',
        `Process ${this.pid} does not end, even after SIGKILL: a device or disk hangs.`
      );
    }
    await this.groupGone();
  }

  /**
   * Waits for what is left of the group after its leader. Bounded: where init does not collect the dead, as in some
   * containers, they look alive for ever.
   */
  async groupGone(): Promise<void> {
    const deadline = performance.now() + GROUP_GONE_MS;
    while (this.#killGroup('SIGKILL') && performance.now() < deadline) {
      await delay(GROUP_POLL_MS);
    }
  }

  /** False when there is no such group. The id of a group is not used again while a member of it lives. */
  #killGroup(signal: NodeJS.Signals): boolean {
    try {
      process.kill(-this.pid, signal);
      return true;
    } catch {
      return false;
    }
  }
}

/** Its files may live on in a child, so no socket or pipe can tell. */
async function endOf(pid: number, start: string): Promise<KernelExit> {
  await processEnd(pid, start);
  return { code: null, signal: null };
}

/** What the crashes of native code are called. */
const FAULTS: Partial<Record<NodeJS.Signals, string>> = {
  SIGSEGV: ' (segmentation fault, signal 11)',
  SIGABRT: ' (aborted, signal 6)',
  SIGBUS: ' (bus error, signal 7)',
  SIGFPE: ' (arithmetic error, signal 8)',
  SIGILL: ' (illegal instruction, signal 4)'
};

/** The last lines of a failed start name the file that was imported in place of a module of that name. */
function hidingFile(kernelLog: string, cwd: string): string | undefined {
  let log: string;
  try {
    log = readFileSync(kernelLog, 'utf8').slice(-8_192);
  } catch {
    return undefined;
  }
  const lines = log.trimEnd().split('\n').slice(-3);
  if (!/Error: /.test(lines.at(-1) ?? '')) return undefined;
  const names = lines.flatMap(line =>
    [...line.matchAll(/["'(]([^"'()]+\.py)["')]/g)].map(([, name = '']) => name)
  );
  return names.findLast(name => path.dirname(name) === cwd || path.dirname(path.dirname(name)) === cwd);
}

export function describeExit({ code, signal, hiding }: KernelExit): string {
  if (hiding !== undefined) {
    return `exited with code ${code}, as ${hiding} hides a module that the kernel needs: rename it`;
  }
  if (code === null && signal === null) {
    return 'ended in an unknown way, because another keeper had started it';
  }
  return signal === null ? `exited with code ${code}` : `killed by ${signal}${FAULTS[signal] ?? ''}`;
}

function fillIn(argument: string, launch: LaunchDescription, files: KernelFiles): string {
  return argument
    .replaceAll('{connection_file}', files.connectionFile)
    .replaceAll('{resource_dir}', launch.resourceDir ?? '');
}

function kernelEnv(launch: LaunchDescription, files: KernelFiles): Record<string, string> {
  const env: Record<string, string> = {
    ...launch.env,
    TPULAB_AGENT_SOCKET: files.agentSocket,
    TPULAB_KERNEL_ID: launch.kernelId
  };
  // ipykernel ends itself when this process ends; a kernel must outlive a keeper that crashes.
  delete env['JPY_PARENT_PID'];
  return env;
}
