// @ts-check
/**
 * Runs a program whose children may leave its process group, as keepers and kernels do: when it has ended or was aborted,
 * its remaining processes are ended too, and its temporary files are removed.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { run } from '../setup/run-command.mjs';
import { Descendants, MARK } from '../start/descendants.mjs';

const END_WAIT_MS = 10_000;

/**
 * Like `run`, for Vitest with the given arguments.
 *
 * @param {readonly string[]} args
 * @param {import('../setup/run-command.mjs').RunOptions & { readonly cwd: string }} options
 */
export function runVitest(args, options) {
  const vitest = path.join(options.cwd, 'node_modules/vitest/vitest.mjs');
  return runToTheLast(process.execPath, [vitest, 'run', '--project=integration', ...args], options);
}

/**
 * Like `run`.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {import('../setup/run-command.mjs').RunOptions} options
 */
export async function runToTheLast(command, args, options) {
  const { signal, env } = options;
  const mark = randomUUID();
  const descendants = new Descendants(mark);
  // A short name: sockets are below it, and the path of a socket has at most about a hundred bytes.
  const folder = await mkdtemp(path.join(tmpdir(), 'tp-'));
  const ending = new AbortController();
  // A keeper without a kernel is known only by its gateway: they are searched while that still runs.
  const onAbort = () => void descendants.refresh().finally(() => ending.abort());
  if (signal?.aborted) ending.abort();
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    return await run(command, args, {
      ...options,
      signal: ending.signal,
      env: { ...env, [MARK]: mark, TMPDIR: folder }
    });
  } finally {
    signal?.removeEventListener('abort', onAbort);
    await descendants.end(END_WAIT_MS);
    await rm(folder, { recursive: true, force: true, maxRetries: 10 });
  }
}
