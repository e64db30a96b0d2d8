/** Starts the keeper of a new kernel as a process of its own, which outlives this one. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { attachKeeper } from './attach.js';
import type { KeeperEvents, LaunchDescription } from './contract.js';
import type { KeeperClient } from './keeper-client.js';
import { KeeperError, type KeeperErrorCode } from './keeper-error.js';
import { kernelPaths, writePrivateFile } from './keeper-file.js';

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

export interface KeeperDirs {
  /** `<state>/kernels/<id>`: made if it does not exist. */
  readonly kernelDir: string;
}

export interface StartOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** The keeper's program, when it is not the compiled one beside this module. */
  readonly entry?: URL;
}

/** What the keeper says once on descriptor 3: that it listens, or why it does not. */
export type StartReport =
  | { readonly ready: true }
  | { readonly ready: false; readonly code: KeeperErrorCode; readonly message: string };

/**
 * Resolves with a connected client once the keeper listens and the kernel process runs; the kernel itself may still be
 * starting. Rejects with `kernel_start_failed` when there is no such program, and leaves no process behind when it rejects.
 */
export async function startKeeper(
  launch: LaunchDescription,
  { kernelDir }: KeeperDirs,
  events: KeeperEvents,
  options: StartOptions = {}
): Promise<KeeperClient> {
  await mkdir(kernelDir, { recursive: true, mode: 0o700 });
  await mkdir(launch.runDir, { recursive: true, mode: 0o700 });
  const paths = kernelPaths(kernelDir);
  await writePrivateFile(paths.launch, launch);
  const log = await open(paths.keeperLog, 'a', 0o600);
  let child: ChildProcess;
  try {
    child = spawn(process.execPath, [fileURLToPath(options.entry ?? ENTRY), kernelDir], {
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
    const report = await reportOf(child, options, paths.keeperLog);
    if (!report.ready) {
      throw new KeeperError(report.code, report.message);
    }
    return await attachKeeper(
      kernelDir,
      events,
      options.signal === undefined ? {} : { signal: options.signal }
    );
  } catch (error) {
    // SIGTERM: the keeper ends its kernel in order before it ends itself.
    child.kill('SIGTERM');
    throw error;
  } finally {
    child.stdio[3]?.destroy();
    child.unref();
  }
}

function reportOf(child: ChildProcess, options: StartOptions, logFile: string): Promise<StartReport> {
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
