/** The operating system's side of a kernel: one process that leads its own session and process group. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, constants, fstatSync, openSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { KILL_MS, type LaunchDescription } from '../keeper-protocol/contract.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import { canSignal, isSameProcess } from '@tpulab/platform/process-identity.js';

export interface KernelExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The cause, as far as known, worded as the end of a sentence about the exit. */
  readonly cause?: string;
}

export interface KernelFiles {
  readonly connectionFile: string;
  readonly kernelLog: string;
  readonly agentSocket: string;
}

const GROUP_POLL_MS = 20;

/** How long to wait until init has collected the remaining processes of a killed group. */
const GROUP_END_MS = 2_000;

/** The working folder of a kernel, even after it was renamed or moved while the keeper runs (Linux). */
export class KernelFolder {
  #descriptor: number | null = null;

  constructor(private readonly requested: string) {
    try {
      this.#descriptor = openSync(requested, constants.O_RDONLY | constants.O_DIRECTORY);
    } catch {
      // The start reports it.
    }
  }

  /** Rejects with `kernel_start_failed` when it no longer exists. */
  path(): string {
    if (isFolder(this.requested)) return this.requested;
    try {
      const now = readlinkSync(`/proc/self/fd/${this.#descriptor}`);
      if (isFolder(now)) return now;
    } catch {
      // Not Linux, or it never existed.
    }
    throw new KeeperError(
      'kernel_start_failed',
      `The kernel's folder ${this.requested} was deleted. Make it again and restart the kernel, or move the notebook and start another kernel.`
    );
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }
}

function isFolder(folder: string): boolean {
  return statSync(folder, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

export class KernelProcess {
  /** Resolves when the process has ended and has been collected, so that its pid is no longer valid. */
  readonly exited: Promise<KernelExit>;
  #running = true;

  private constructor(
    readonly pid: number,
    exit: Promise<KernelExit>
  ) {
    this.exited = exit.then(how => {
      this.#running = false;
      // Processes that the kernel started would keep the devices; no other code would end them.
      this.#killGroup('SIGKILL');
      return how;
    });
  }

  /** A process that another keeper has started, identified by its `processStart`. Only its parent can learn how it ends. */
  static adopt(pid: number, start: string): KernelProcess {
    return new KernelProcess(pid, endOf(pid, start));
  }

  /** Rejects with `kernel_start_failed` when the program cannot be run. */
  static async start(launch: LaunchDescription, files: KernelFiles): Promise<KernelProcess> {
    const [program = '', ...args] = launch.argv.map(argument => fillIn(argument, launch, files));
    const log = openSync(files.kernelLog, 'a', 0o600);
    const before = { oomKills: killedForMemory(), logBytes: fstatSync(log).size };
    let recount: NodeJS.Timeout | undefined;
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
    child.once('spawn', () => {
      // Processes killed hours ago explain nothing: the comparison uses the count from 5 to 10 s ago.
      let newer = before.oomKills;
      recount = setInterval(() => {
        before.oomKills = newer;
        newer = killedForMemory();
      }, RECOUNT_MS).unref();
    });
    const exit = new Promise<KernelExit>(resolve => {
      child.once('exit', (code, signal) => {
        clearInterval(recount);
        resolve({ code, signal, cause: causeOf(code, signal, { ...files, ...before, cwd: launch.cwd }) });
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

  /** To the whole group: processes that a cell has started must stop with the cell. */
  signal(signal: NodeJS.Signals): void {
    if (this.#running) this.#killGroup(signal);
  }

  /** True when the process ends within this time. */
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

  /** The last step, which no process can ignore. Resolves when the group has ended. */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    if (!(await this.endsWithin(KILL_MS))) {
      throw new KeeperError(
        'kernel_unkillable',
        `Process ${this.pid} does not end, even after SIGKILL: a device or disk hangs.`
      );
    }
    await this.groupEnded();
  }

  /**
   * Waits for the rest of the group after its leader. Bounded: where init does not collect ended processes, as in some
   * containers, they look alive forever.
   */
  async groupEnded(): Promise<void> {
    const deadline = performance.now() + GROUP_END_MS;
    while (this.#killGroup('SIGKILL') && performance.now() < deadline) await delay(GROUP_POLL_MS);
  }

  /** False when there is no such group. The id of a group is not reused while a member of it lives. */
  #killGroup(signal: NodeJS.Signals): boolean {
    try {
      process.kill(-this.pid, signal);
      return true;
    } catch {
      return false;
    }
  }
}

/** The kernel's files may stay open in a child, so no socket or pipe reveals the kernel's end. */
async function endOf(pid: number, start: string): Promise<KernelExit> {
  await processEnd(pid, start);
  return { code: null, signal: null };
}

/** Names for crashes of native code. */
const FAULTS: Partial<Record<NodeJS.Signals, string>> = {
  SIGSEGV: ' (segmentation fault, signal 11)',
  SIGABRT: ' (aborted, signal 6)',
  SIGBUS: ' (bus error, signal 7)',
  SIGFPE: ' (arithmetic error, signal 8)',
  SIGILL: ' (illegal instruction, signal 4)'
};

interface ExitTraces {
  readonly kernelLog: string;
  readonly cwd: string;
  /** `killedForMemory` some seconds ago, and the length of the log when the process was started. */
  readonly oomKills: number;
  readonly logBytes: number;
}

export function causeOf(
  code: number | null,
  signal: NodeJS.Signals | null,
  traces: ExitTraces,
  vmstat?: string
): string {
  if (signal !== null && signal in FAULTS) return `; see ${traces.kernelLog}`;
  if (signal === 'SIGKILL' && killedForMemory(vmstat) > traces.oomKills) {
    return ', probably because the machine ran out of memory: Linux ended a process for that reason at the same time';
  }
  if (code === 0 || code === null) return '';
  const lines = lastLines(traces.kernelLog, traces.logBytes);
  const hiding = shadowingFile(lines, traces.cwd);
  if (hiding !== undefined) return `, as ${hiding} hides a module that the kernel needs: rename it`;
  const last = lines.at(-1) ?? '';
  return ERROR_LINE.test(last) ? `: ${last.slice(0, 300)}` : '';
}

/** How often the count of killed processes is stored, in milliseconds. */
const RECOUNT_MS = 5_000;

/**
 * How many processes Linux has killed for lack of memory, of the machine or of a control group. 0 if it does not report
 * that.
 */
export function killedForMemory(vmstat = '/proc/vmstat'): number {
  try {
    return Number(/^oom_kill (\d+)$/m.exec(readFileSync(vmstat, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

const ERROR_LINE = /Error: /;

function lastLines(kernelLog: string, fromByte: number): string[] {
  try {
    const log = readFileSync(kernelLog).subarray(fromByte).subarray(-8_192);
    return log.toString().trimEnd().split('\n').slice(-3);
  } catch {
    return [];
  }
}

/** The last lines of a failed start name the file that was imported instead of a module of that name. */
function shadowingFile(lines: readonly string[], cwd: string): string | undefined {
  if (!ERROR_LINE.test(lines.at(-1) ?? '')) return undefined;
  const names = lines.flatMap(line =>
    [...line.matchAll(/["'(]([^"'()]+\.py)["')]/g)].map(([, name = '']) => name)
  );
  return names.findLast(name => path.dirname(name) === cwd || path.dirname(path.dirname(name)) === cwd);
}

export function describeExit({ code, signal, cause = '' }: KernelExit): string {
  if (code === null && signal === null) {
    return 'ended in an unknown way, because another keeper had started it';
  }
  return signal === null
    ? `exited with code ${code}${cause}`
    : `killed by ${signal}${FAULTS[signal] ?? ''}${cause}`;
}

/** The prefix is that of the environment in which the kernelspec is installed. */
export function fillIn(
  argument: string,
  launch: Pick<LaunchDescription, 'resourceDir'>,
  files: Pick<KernelFiles, 'connectionFile'>
): string {
  const resourceDir = launch.resourceDir ?? '';
  const values: Readonly<Record<string, string | undefined>> = {
    '{connection_file}': files.connectionFile,
    '{resource_dir}': resourceDir,
    '{prefix}': /^(.+)\/share\/jupyter\/kernels\/[^/]+$/.exec(resourceDir)?.[1]
  };
  return argument.replace(/\{(?:connection_file|resource_dir|prefix)\}/g, name => values[name] ?? name);
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

/** How soon the end is noticed. */
const POLL_MS = 200;
/** How often to verify that the pid was not given to another process, on systems where that requires running a program. */
const IDENTIFY_MS = 10_000;

/** Resolves when the process with this pid and start time has ended. */
export async function processEnd(pid: number, start: string, identifyMs = IDENTIFY_MS): Promise<void> {
  const hasProc = process.platform === 'linux';
  for (let identifiedAt = -Infinity; ;) {
    const isDue = hasProc || performance.now() - identifiedAt >= identifyMs;
    if (isDue) {
      if (!(await isSameProcess(pid, start).catch(() => true))) return;
      identifiedAt = performance.now();
    } else if (!canSignal(pid)) {
      return;
    }
    await delay(POLL_MS);
  }
}
