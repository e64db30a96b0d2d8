/** Runs the keeper's program as a process of its own, which outlives this one. */
import { type ChildProcess, spawn } from 'node:child_process';
import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { KeeperError, type KeeperErrorCode } from './keeper-error.js';
import { kernelPaths } from './keeper-file.js';
import type { KeeperTask } from './run-keeper.js';

/** Node and one native module on a cold, busy machine. */
const START_MS = 60_000;

/** Compiled, also when this file runs from its source under a test runner. */
const ENTRY = new URL('../../lib/keeper/main.js', import.meta.url);

/** Enough for Node to run. Secrets of the gateway stay in the gateway. */
const KEEPER_ENV = [
  'PATH',
  'HOME',
  'LANG',
  'LC_ALL',
  'TMPDIR',
  'TZ',
  'LD_LIBRARY_PATH',
  'NODE_EXTRA_CA_CERTS'
];

export interface LaunchOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** The keeper's program, when it is not the compiled one beside this module. */
  readonly entry?: URL;
}

/** What the keeper says once on descriptor 3: that it listens, or why it does not. */
export type StartReport =
  | { readonly ready: true }
  | { readonly ready: false; readonly code: KeeperErrorCode; readonly message: string };

/** Resolves once the keeper listens. Rejects with what it reports; no keeper is left then. */
export async function launchKeeper(
  task: KeeperTask,
  kernelDir: string,
  options: LaunchOptions = {}
): Promise<ChildProcess> {
  const { keeperLog } = kernelPaths(kernelDir);
  const log = await open(keeperLog, 'a', 0o600);
  let child: ChildProcess;
  try {
    child = spawn(process.execPath, [fileURLToPath(options.entry ?? ENTRY), task, kernelDir], {
      detached: true,
      cwd: kernelDir,
      env: Object.fromEntries(
        KEEPER_ENV.flatMap(name => (process.env[name] ? [[name, process.env[name]]] : []))
      ),
      stdio: ['ignore', log.fd, log.fd, 'pipe']
    });
  } finally {
    await log.close();
  }
  try {
    const report = await reportOf(child, options, keeperLog);
    if (!report.ready) {
      throw new KeeperError(report.code, report.message);
    }
    return child;
  } catch (error) {
    // A kernel of its own it ends in order before it ends itself; one that it was to take over must not end with it.
    child.kill(task === 'start' ? 'SIGTERM' : 'SIGKILL');
    throw error;
  } finally {
    child.stdio[3]?.destroy();
    child.unref();
  }
}

function reportOf(child: ChildProcess, options: LaunchOptions, logFile: string): Promise<StartReport> {
  const deadline = AbortSignal.timeout(options.timeoutMs ?? START_MS);
  const signal = options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]);
  return new Promise((resolve, reject) => {
    let text = '';
    const pipe = child.stdio[3] as Readable;
    const fail = (why: string, cause?: unknown): void => {
      signal.removeEventListener('abort', onAbort);
      reject(
        new KeeperError('keeper_start_failed', `The keeper did not start: ${why}; see ${logFile}.`, { cause })
      );
    };
    const onAbort = (): void =>
      options.signal?.aborted === true ? reject(signal.reason as Error) : fail('it said nothing in time');
    signal.addEventListener('abort', onAbort, { once: true });
    child.once('error', error => fail(error.message, error));
    child.once('exit', (code, by) => {
      if (text === '') {
        fail(by === null ? `it exited with code ${code}` : `it was killed by ${by}`);
      }
    });
    pipe.setEncoding('utf8').on('data', (part: string) => (text += part));
    pipe.once('error', error => fail(error.message, error));
    pipe.once('end', () => {
      if (text === '') {
        return; // it is ending: how, its exit tells
      }
      signal.removeEventListener('abort', onAbort);
      try {
        resolve(JSON.parse(text) as StartReport);
      } catch (error) {
        fail('it said nothing that can be understood', error);
      }
    });
  });
}
