/** Runs a program to its end, passes on its lines as they arrive, and ends its whole group on abort. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

interface ProgramRun {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  readonly signal?: AbortSignal;
  /** Time limit, after which the program and its children are ended. */
  readonly timeoutMs?: number;
  readonly onLine?: (line: string) => void;
  /** Number of last lines to store per stream; the default is enough to explain a failure. */
  readonly maxLines?: number;
}

export interface ProgramResult {
  /** null: ended by a signal. */
  readonly exitCode: number | null;
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
  readonly timedOut: boolean;
}

/** Stored lines per stream, from its end: enough to explain a failure, however much a program prints. */
const MAX_LINES = 400;
/** Time between the request to end and the kill. */
const END_WAIT_MS = 3000;

/** Rejects only if the program cannot be started; the result contains its exit. */
export async function runProgram(run: ProgramRun): Promise<ProgramResult> {
  // Its own process group: uv's build backends end with it, and Ctrl-C reaches it only once, through us.
  const child = spawn(run.command, run.args, {
    cwd: run.cwd,
    env: run.env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true
  });
  const stdout: string[] = [];
  const stderr: string[] = [];
  const keep = (lines: string[], line: string) => {
    lines.push(line);
    if (lines.length > (run.maxLines ?? MAX_LINES)) lines.shift();
    run.onLine?.(line);
  };
  createInterface({ input: child.stdout }).on('line', line => {
    keep(stdout, line);
  });
  createInterface({ input: child.stderr }).on('line', line => {
    keep(stderr, line);
  });

  let timedOut = false;
  let killTimer: NodeJS.Timeout | undefined;
  const end = () => {
    endGroup(child.pid, 'SIGTERM');
    killTimer = setTimeout(() => {
      endGroup(child.pid, 'SIGKILL');
    }, END_WAIT_MS);
  };
  const deadline =
    run.timeoutMs === undefined
      ? undefined
      : setTimeout(() => {
          timedOut = true;
          end();
        }, run.timeoutMs);
  run.signal?.addEventListener('abort', end, { once: true });
  if (run.signal?.aborted) end();
  try {
    const exitCode = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    return { exitCode, stdout, stderr, timedOut };
  } finally {
    clearTimeout(deadline);
    clearTimeout(killTimer);
    run.signal?.removeEventListener('abort', end);
  }
}

function endGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has already ended.
  }
}
