/**
 * Runs Google's own `colab` command and parses its output. The command never prompts on a terminal, and only this user can
 * read the files that it writes. Unrequested lines (an update banner, pruned sessions) can appear anywhere and are ignored.
 */
import path from 'node:path';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { deadline } from '@tpulab/platform/waiting.js';
import { RemoteProblem } from '../remote-error.js';
import { SshProcess } from '../ssh/ssh-process.js';

/** `colab` queries a server, and once a day the package index. */
const ANSWER_MS = 90_000;
const MAX_LINES = 1_000;

/**
 * Without this, a usual umask would let every user read the files of `colab`, and it would inherit our PYTHONPATH. The
 * program and its arguments follow as arguments of the shell.
 */
export const PRIVATE_START = 'umask 077; unset PYTHONPATH PYTHONHOME; exec "$@"';

export interface ColabAnswer {
  readonly code: number | null;
  readonly lines: readonly string[];
  readonly errors: readonly string[];
}

export interface ColabCall {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
  readonly env?: Readonly<Record<string, string>>;
}

export interface ColabCommand {
  /** Absolute path of the program. @throws RemoteProblem `colab_missing` */
  program(): Promise<string>;
  /** A nonzero exit code is a result. @throws RemoteProblem `colab_missing`, or `colab_failed` if the command does not answer */
  run(args: readonly string[], call: ColabCall): Promise<ColabAnswer>;
}

export function colabOnPath(program = 'colab'): ColabCommand {
  const find = (): Promise<string> => findProgram(program);
  return { program: find, run: async (args, call) => runToEnd(await find(), args, call) };
}

async function runToEnd(program: string, args: readonly string[], call: ColabCall): Promise<ColabAnswer> {
  const { signal, timeoutMs = ANSWER_MS, env } = call;
  using within = deadline(timeoutMs, signal);
  const limit = within.signal;
  signal.throwIfAborted();
  const started = await SshProcess.start({
    program: '/bin/sh',
    args: ['-c', PRIVATE_START, 'sh', program, ...args],
    // Without this variable, `colab` draws errors in boxes and cuts each line at the terminal width.
    env: { ...process.env, TYPER_STANDARD_TRACEBACK: '1', ...env }
  });
  const end = (): void => void started.end();
  limit.addEventListener('abort', end, { once: true });
  if (limit.aborted) end();
  started.child.stdin.end();
  const lines: string[] = [];
  createInterface({ input: started.child.stdout }).on('line', line => {
    if (lines.length < MAX_LINES) lines.push(line);
  });
  const { code } = await started.ended;
  limit.removeEventListener('abort', end);
  signal.throwIfAborted();
  if (limit.aborted) {
    throw new RemoteProblem(
      'colab_failed',
      `"colab ${args.find(word => /^[a-z]+$/.test(word)) ?? ''}" did not answer within ${timeoutMs / 1000} s. Check that this computer is online.`
    );
  }
  return { code, lines, errors: started.errors };
}

async function findProgram(program: string): Promise<string> {
  const folders = program.includes(path.sep) ? [''] : (process.env['PATH'] ?? '').split(path.delimiter);
  for (const folder of folders) {
    const file = path.resolve(folder, program);
    const isThere = await access(file, constants.X_OK).then(
      () => true,
      () => false
    );
    if (isThere) return file;
  }
  throw new RemoteProblem(
    'colab_missing',
    'Google\'s colab command is not on the PATH of the server. Install it (it needs Python 3.12 or newer, Linux or macOS), log in once with the command "colab usage", then connect again.',
    { command: 'uv tool install google-colab-cli' }
  );
}

export interface ColabUsage {
  /** Remaining compute units; 0 on an account that never bought any. */
  readonly balance: number;
  /** Current consumption of all runtimes of the account, in compute units per hour. */
  readonly ratePerHour: number;
  readonly runtimes: number;
}

export interface ListedRuntime {
  /** Name in the session file; null if the session file does not contain this runtime. */
  readonly session: string | null;
  readonly endpoint: string;
  /** Example: `V5E1`. */
  readonly hardware: string;
}

type Lines = readonly string[];

export function parseVersion(lines: Lines): string | null {
  return firstMatch(lines, /^Version: (\S+)$/)?.[1] ?? null;
}

/** `colab ssh` exists since 0.7.2; a version that is not a number is a custom build. */
export function supportsSsh(version: string): boolean {
  const numbers = /^(\d+)\.(\d+)\.(\d+)/.exec(version);
  if (!numbers) return true;
  const [major = 0, minor = 0, patch = 0] = numbers.slice(1).map(Number);
  return major * 1e6 + minor * 1e3 + patch >= 7_002;
}

export function parseUsage(lines: Lines): ColabUsage | null {
  const balance = numberOf(lines, /^Current balance: (-?\d+(?:\.\d+)?) compute units$/);
  const ratePerHour = numberOf(lines, /^Usage rate: (\d+(?:\.\d+)?)\/hr$/);
  const runtimes = numberOf(lines, /^Active assignments: (\d+)$/);
  return balance === null || ratePerHour === null || runtimes === null
    ? null
    : { balance, ratePerHour, runtimes };
}

/** Parses the output of `sessions` and `status`. */
export function parseRuntimes(lines: Lines): ListedRuntime[] {
  return lines.flatMap(line => {
    const match = /^\[([^\]]+)\] (\S+) \| Hardware: (\S+) \| /.exec(line);
    if (!match) return [];
    const [, session = '', endpoint = '', hardware = ''] = match;
    return [{ session: session === '?' ? null : session, endpoint, hardware }];
  });
}

/** Whether `status` or `stop` reports that the session does not exist. */
export function isNotFound(lines: Lines, session: string): boolean {
  return lines.includes(`[colab] Session '${session}' not found.`);
}

function numberOf(lines: Lines, pattern: RegExp): number | null {
  const found = firstMatch(lines, pattern)?.[1];
  return found === undefined ? null : Number(found);
}

function firstMatch(lines: Lines, pattern: RegExp): RegExpExecArray | null {
  for (const line of lines) {
    const match = pattern.exec(line.trim());
    if (match) return match;
  }
  return null;
}
