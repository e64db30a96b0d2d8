/** Runs the keeper's program as a process of its own, which outlives this one, and the login session where that can be had. */
import { type ChildProcess, spawn } from 'node:child_process';
import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { KeeperError, type KeeperErrorCode } from './keeper-error.js';
import { kernelPaths } from './keeper-file.js';
import type { KeeperTask } from './run-keeper.js';
import {
  findUserScope,
  giveUpScopes,
  inScope,
  MANAGER_VARIABLES,
  type ScopeChoice,
  type SystemdFolders,
  unitOf
} from './user-scope.js';

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
  /** Where systemd has its folders; tests have others. */
  readonly systemd?: SystemdFolders;
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
  const command = [process.execPath, fileURLToPath(options.entry ?? ENTRY), task, kernelDir];
  const env = variables([...KEEPER_ENV, ...MANAGER_VARIABLES]);
  let choice: ScopeChoice = await findUserScope({
    env,
    ...(options.systemd && { folders: options.systemd })
  });
  options.signal?.throwIfAborted();
  if (choice.isThere) {
    const unit = unitOf(basename(kernelDir));
    try {
      return await launch(task, inScope(unit, [...command, unit]), env, kernelDir, options);
    } catch (error) {
      if (!(error instanceof NothingRanError)) {
        throw error;
      }
      choice = giveUpScopes(env, 'systemd-run failed, see above');
    }
  }
  return launch(task, [...command, `none: ${choice.why}`], variables(KEEPER_ENV), kernelDir, options);
}

function variables(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap(name => (process.env[name] ? [[name, process.env[name]]] : [])));
}

async function launch(
  task: KeeperTask,
  [program = '', ...args]: readonly string[],
  env: Record<string, string>,
  kernelDir: string,
  options: LaunchOptions
): Promise<ChildProcess> {
  const { keeperLog } = kernelPaths(kernelDir);
  const log = await open(keeperLog, 'a', 0o600);
  let child: ChildProcess;
  let reported: Promise<StartReport>;
  try {
    child = spawn(program, args, {
      detached: true,
      cwd: kernelDir,
      env,
      stdio: ['ignore', log.fd, log.fd, 'pipe']
    });
    // At once: a program that cannot be run ends before anything else is done.
    reported = reportOf(child, options, keeperLog);
    reported.catch(() => undefined); // awaited below
  } finally {
    await log.close();
  }
  try {
    const report = await reported;
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

/** How systemd-run ends that could not run anything, and Node that could not load a program. A keeper reports why it ends. */
class NothingRanError extends KeeperError {}

function reportOf(child: ChildProcess, options: LaunchOptions, logFile: string): Promise<StartReport> {
  const deadline = AbortSignal.timeout(options.timeoutMs ?? START_MS);
  const signal = options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]);
  return new Promise((resolve, reject) => {
    let text = '';
    const pipe = child.stdio[3] as Readable;
    const fail = (why: string, cause?: unknown, Kind = KeeperError): void => {
      signal.removeEventListener('abort', onAbort);
      reject(new Kind('keeper_start_failed', `The keeper did not start: ${why}; see ${logFile}.`, { cause }));
    };
    const onAbort = (): void =>
      options.signal?.aborted === true ? reject(signal.reason as Error) : fail('it said nothing in time');
    signal.addEventListener('abort', onAbort, { once: true });
    child.once('error', error => fail(error.message, error, NothingRanError));
    child.once('exit', (code, by) => {
      if (text === '') {
        const how = by === null ? `it exited with code ${code}` : `it was killed by ${by}`;
        fail(how, undefined, code === 1 ? NothingRanError : KeeperError);
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
