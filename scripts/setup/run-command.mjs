// @ts-check
/** Runs a program to its end in a separate process group, so that an abort ends its children too. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { explainFailure } from './explain-failure.mjs';
import { Interrupted, SetupProblem } from './setup-problem.mjs';

/**
 * @typedef {object} RunOptions
 * @property {string} [cwd]
 * @property {Readonly<Record<string, string | undefined>>} [env] added to this process's environment
 * @property {AbortSignal} [signal]
 * @property {number} [timeoutMs]
 * @property {(line: string) => void} [onLine] each line of stdout and stderr
 * @property {number} [keptLines] how many lines of each stream the result contains, from the end
 */

/**
 * @typedef {object} Ended
 * @property {number | null} exitCode null: ended by a signal
 * @property {NodeJS.Signals | null} signal
 * @property {boolean} timedOut
 * @property {readonly string[]} stdout
 * @property {readonly string[]} stderr
 */

const END_WAIT_MS = 5000;

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {RunOptions} [options]
 * @returns {Promise<Ended>}
 */
export async function run(command, args, options = {}) {
  const { cwd, env, signal, timeoutMs, onLine, keptLines: maxLines = 2000 } = options;
  if (signal?.aborted) throw new Interrupted();
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true
  });
  const stdout = collect(child.stdout, maxLines, onLine);
  const stderr = collect(child.stderr, maxLines, onLine);
  let timedOut = false;
  /** @type {NodeJS.Timeout | undefined} */
  let killTimer;
  const end = () => {
    signalGroup(child.pid, 'SIGTERM');
    killTimer = setTimeout(() => signalGroup(child.pid, 'SIGKILL'), END_WAIT_MS);
  };
  const deadline =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => {
          timedOut = true;
          end();
        }, timeoutMs);
  signal?.addEventListener('abort', end, { once: true });
  try {
    const [exitCode, endSignal] = await /** @type {Promise<[number | null, NodeJS.Signals | null]>} */ (
      new Promise((resolve, reject) => {
        child.once('error', reject);
        child.once('close', (code, name) => resolve([code, name]));
      })
    );
    if (signal?.aborted) throw new Interrupted();
    return { exitCode, signal: endSignal, timedOut, stdout, stderr };
  } finally {
    clearTimeout(deadline);
    clearTimeout(killTimer);
    signal?.removeEventListener('abort', end);
  }
}

/**
 * Like `run`, but a failure is a SetupProblem that states the cause.
 *
 * @param {string} doing
 * @param {string} command
 * @param {readonly string[]} args
 * @param {RunOptions} [options]
 * @returns {Promise<Ended>}
 */
export async function runOrExplain(doing, command, args, options = {}) {
  let ended;
  try {
    ended = await run(command, args, options);
  } catch (error) {
    if (error instanceof Interrupted) throw error;
    throw new SetupProblem(
      'failed',
      `${doing} failed: ${command} cannot be started; check that it is installed.`,
      {
        cause: error
      }
    );
  }
  if (ended.timedOut) {
    throw new SetupProblem(
      'timed-out',
      `${doing} took too long and was ended; start again; it continues from here.`,
      {
        details: [...ended.stdout, ...ended.stderr].slice(-5)
      }
    );
  }
  if (ended.exitCode !== 0) throw await explainFailure(doing, ended);
  return ended;
}

/**
 * @param {number | undefined} pid
 * @param {NodeJS.Signals} name
 */
function signalGroup(pid, name) {
  if (pid === undefined) return;
  try {
    process.kill(-pid, name);
  } catch {
    // The group has already ended.
  }
}

/**
 * @param {import('node:stream').Readable} stream
 * @param {number} maxLines
 * @param {((line: string) => void) | undefined} onLine
 * @returns {string[]}
 */
function collect(stream, maxLines, onLine) {
  /** @type {string[]} */
  const lines = [];
  createInterface({ input: stream }).on('line', line => {
    lines.push(line);
    if (lines.length > maxLines) lines.shift();
    onLine?.(line);
  });
  return lines;
}
