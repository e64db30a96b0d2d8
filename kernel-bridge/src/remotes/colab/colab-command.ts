/** Runs Google's own `colab` command. It is never asked anything on a terminal, and what it keeps is for this user alone. */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { RemoteProblem } from '../remote-error.js';
import { SshProcess } from '../ssh/ssh-process.js';

/** It asks a server, and once a day the package index. */
const ANSWER_MS = 90_000;
const KEPT_LINES = 1_000;

/**
 * Its files would be readable by everybody under a usual umask, and a PYTHONPATH of ours would be its own. As a shell's arguments
 * follow the program and its arguments.
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
  /** Absolute. @throws RemoteProblem `colab_missing` */
  program(): Promise<string>;
  /** A code other than 0 is an answer. @throws RemoteProblem `colab_missing`, `colab_failed` when it does not answer */
  run(args: readonly string[], call: ColabCall): Promise<ColabAnswer>;
}

export function colabOnPath(program = 'colab'): ColabCommand {
  const find = (): Promise<string> => findProgram(program);
  return { program: find, run: async (args, call) => runToEnd(await find(), args, call) };
}

async function runToEnd(program: string, args: readonly string[], call: ColabCall): Promise<ColabAnswer> {
  const { signal, timeoutMs = ANSWER_MS, env } = call;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  signal.throwIfAborted();
  const started = await SshProcess.start({
    program: '/bin/sh',
    args: ['-c', PRIVATE_START, 'sh', program, ...args],
    // Or its errors are drawn into boxes, with every line cut at the width of a terminal.
    env: { ...process.env, TYPER_STANDARD_TRACEBACK: '1', ...env }
  });
  const end = (): void => void started.end();
  limit.addEventListener('abort', end, { once: true });
  if (limit.aborted) end();
  started.child.stdin.end();
  const lines: string[] = [];
  createInterface({ input: started.child.stdout }).on('line', line => {
    if (lines.length < KEPT_LINES) lines.push(line);
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
    'Google\'s colab command is not on the PATH of the gateway. Install it (it needs Python 3.12 or newer, Linux or macOS), log in once with the command "colab usage", then connect again.',
    { command: 'uv tool install google-colab-cli' }
  );
}
