// @ts-check
/** Child processes that end with the benchmark. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';

const END_DEADLINE_MS = 20_000;

/**
 * Starts a process whose output goes to a file; stdout can be read as well.
 * @param {readonly string[]} argv
 * @param {{ env: NodeJS.ProcessEnv, cwd: string, log: string }} options
 */
export function startChild([program = '', ...rest], { env, cwd, log }) {
  const child = spawn(program, rest, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  const file = createWriteStream(log);
  child.stdout.pipe(file, { end: false });
  child.stderr.pipe(file, { end: false });
  child.on('close', () => file.end());
  return child;
}

/**
 * SIGTERM, and SIGKILL if that is ignored.
 * @param {import('node:child_process').ChildProcess} child
 */
export async function endChild(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), END_DEADLINE_MS);
  await ended;
  clearTimeout(timer);
}

/**
 * Retries until `attempt` gives a value: for a server that is starting.
 * @template T
 * @param {string} what for the message when time is up
 * @param {() => Promise<T | null>} attempt
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<T>}
 */
export async function until(what, attempt, child) {
  const deadline = Date.now() + 60_000;
  while (Date.now() < deadline) {
    if (child.exitCode !== null) throw new Error(`${what}: the process ended with code ${child.exitCode}.`);
    const value = await attempt().catch(() => null);
    if (value !== null) return value;
    await new Promise(resolve => setTimeout(resolve, 100));
  }
  throw new Error(`${what}: not ready within 60 s.`);
}
