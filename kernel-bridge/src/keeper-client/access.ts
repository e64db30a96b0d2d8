/** How the gateway reaches the keepers of this machine: starts them, attaches to them, and ends those that hang. */
import { mkdir, stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { measureSegments } from '../journal/index.js';
import {
  kernelPaths,
  presenceOfKernel,
  readKeeperRecord,
  readLaunch
} from '../keeper-protocol/keeper-file.js';
import { isSameProcess } from '@tpulab/platform/process-identity.js';
import { KeeperError, KeeperEndedError } from '../keeper-protocol/keeper-error.js';
import type {
  KeeperEvents,
  KeeperHandle,
  KernelSnapshot,
  LaunchDescription
} from '../keeper-protocol/contract.js';
import type { SpareKeeper } from './spare-keeper.js';
import { attachKeeper } from './attach.js';
import type { KeeperClient } from './client.js';
import { writeForThisBoot } from '@tpulab/platform/write-atomically.js';
import { launchKeeper, type LaunchOptions } from './launch.js';

interface KeeperOptions {
  /** A new kernel gets the spare keeper if there is one. */
  readonly spare?: SpareKeeper | null;
  /** A keeper that has not sent hello after this time counts as silent. */
  readonly helloMs?: number;
}

export type KeeperAccess = ReturnType<typeof localKeepers>;

/** A killed process disappears only when its current system call has ended. */
const KILL_MS = 10_000;
const RECHECK_MS = 20;

/** Time from `launch.json` to the keeper's lock: a process starts and loads its program, perhaps on a busy machine. */
const BEGIN_MS = 60_000;

export function localKeepers({ spare, helloMs }: KeeperOptions = {}) {
  return {
    /** Starts a keeper for a new kernel; rejects when the keeper or the kernel process could not be started. */
    start: (kernelDir: string, launch: LaunchDescription, events: KeeperEvents): Promise<KeeperHandle> =>
      startKeeper(launch, { kernelDir }, events, spare ? { spare } : {}),

    /**
     * Connects to the keeper that a folder describes, or to a new one when only the kernel still runs; null when neither does.
     * Rejects with `keeper_timeout` when the keeper runs but does not answer.
     */
    attach: (kernelDir: string, events: KeeperEvents, signal?: AbortSignal): Promise<KeeperHandle | null> =>
      attach(kernelDir, events, { signal, helloMs })
  };
}

/** The state of a kernel from its files while its keeper is silent: `unknown`, without a newest record. */
export async function presumed(kernelDir: string): Promise<KernelSnapshot> {
  const [record, launch] = await Promise.all([readKeeperRecord(kernelDir), readLaunch(kernelDir)]);
  const startedAt = Date.parse(record?.startedAt ?? '') || Date.now();
  return {
    kernelId: launch.kernelId,
    specName: launch.specName,
    executionState: 'unknown',
    reason: null,
    lastActivity: startedAt,
    startedAt,
    keeperPid: record?.pid ?? 0,
    kernelPid: record?.kernelPid ?? null,
    kernelSession: null,
    busyParent: null,
    lastSeq: 0
  };
}

/** Ends a keeper that does not answer, and its kernel. Written data is not lost, but requests to it are no longer possible. */
export async function endSilent(kernelDir: string): Promise<void> {
  const { record, presence } = await presenceOfKernel(kernelDir);
  if (record === null || presence !== 'here') return;
  const runs = (): Promise<boolean> => isSameProcess(record.pid, record.processStart);
  if (await runs()) {
    kill(record.pid);
    for (const deadline = performance.now() + KILL_MS; await runs();) {
      if (performance.now() > deadline)
        throw new Error(`The keeper (process ${record.pid}) does not answer and cannot be killed.`);
      await delay(RECHECK_MS);
    }
  }
  await endOrphan(kernelDir);
}

/** Ends the kernel process that a keeper has left behind, if any. */
export async function endOrphan(kernelDir: string): Promise<void> {
  const { record, presence } = await presenceOfKernel(kernelDir);
  if (presence !== 'here' || record?.kernelPid == null) return;
  if (!(await isSameProcess(record.kernelPid, record.kernelProcessStart))) return;
  // The kernel leads its own process group; its child processes end with it.
  kill(-record.kernelPid);
}

async function attach(
  kernelDir: string,
  events: KeeperEvents,
  options: AdoptOptions
): Promise<KeeperHandle | null> {
  try {
    return await attachOrAdopt(kernelDir, events, options);
  } catch (error) {
    if (!(error instanceof KeeperEndedError)) throw error;
    if (error.keeper.keeperPid !== null || !(await isBeginning(kernelDir))) return null;
    throw new KeeperError(
      'keeper_timeout',
      `The keeper of kernel ${error.keeper.kernelId} is being started; see its keeper.log.`
    );
  }
}

/**
 * A gateway that was killed may just have started a keeper that has not yet created its lock and its journal. After a
 * failed start the gateway removes the files that this function checks.
 */
async function isBeginning(kernelDir: string): Promise<boolean> {
  const { launch, journal } = kernelPaths(kernelDir);
  const launched = await stat(launch).catch(() => null);
  return (
    launched !== null &&
    Math.abs(Date.now() - launched.mtimeMs) < BEGIN_MS &&
    (await measureSegments(journal)).length === 0
  );
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Starts a kernel with its own keeper. */
interface KeeperDirs {
  /** `<state>/kernels/<id>`: created if it does not exist. */
  readonly kernelDir: string;
}

export interface StartOptions extends LaunchOptions {
  /** Where a spare keeper may be ready. */
  readonly spare?: SpareKeeper;
}

/**
 * Resolves with a connected client once the keeper listens and the kernel process runs; the kernel itself may still be
 * starting. Rejects with `kernel_start_failed` when the program does not exist; after a rejection no process is left.
 */
export async function startKeeper(
  launch: LaunchDescription,
  { kernelDir }: KeeperDirs,
  events: KeeperEvents,
  options: StartOptions = {}
): Promise<KeeperClient> {
  await mkdir(kernelDir, { recursive: true, mode: 0o700 });
  await mkdir(launch.runDir, { recursive: true, mode: 0o700 });
  await writeForThisBoot(kernelPaths(kernelDir).launch, launch);
  const child = await (options.spare?.take(kernelDir, options) ?? launchKeeper('start', kernelDir, options));
  try {
    return await attachKeeper(kernelDir, events, { signal: options.signal });
  } catch (error) {
    // SIGTERM: the keeper shuts down its kernel before it ends.
    child.kill('SIGTERM');
    throw error;
  }
}

/** A killed process loses its sockets a moment before it ends, and a new keeper has its lock a moment before it listens. */
const MAX_CLAIM_MS = 60_000;
const RETRY_MS = 50;

/**
 * Connects to a kernel's keeper, and gives a kernel that has lost its keeper a new one. Several processes may try together: keepers
 * lock the folder of their kernel, so one of them takes over and the others attach to it.
 */
interface AdoptOptions extends LaunchOptions {
  /** How long a keeper that accepts a connection may take to send hello. */
  readonly helloMs?: number | undefined;
}

/**
 * Rejects with `KeeperEndedError` when both keeper and kernel have ended, and with `KeeperError` when a keeper runs but
 * does not answer, or none could be started.
 */
export async function attachOrAdopt(
  kernelDir: string,
  events: KeeperEvents,
  options: AdoptOptions = {}
): Promise<KeeperClient> {
  const attach = { signal: options.signal, timeoutMs: options.helloMs };
  for (const deadline = performance.now() + MAX_CLAIM_MS; ;) {
    try {
      return await attachKeeper(kernelDir, events, attach);
    } catch (error) {
      const hasEnded = error instanceof KeeperEndedError;
      const retries = hasEnded ? error.keeper.orphanPid !== null : isRefusal(error);
      if (!retries || performance.now() > deadline) throw error;
      if (hasEnded) await adopt(kernelDir, options);
    }
    await delay(RETRY_MS, undefined, { signal: options.signal });
  }
}

/** Another gateway may be faster, and the kernel may have ended in the meantime: the next check finds the actual state. */
async function adopt(kernelDir: string, options: LaunchOptions): Promise<void> {
  try {
    await launchKeeper('adopt', kernelDir, options);
  } catch (error) {
    const { code } = error as KeeperError;
    if (code !== 'keeper_exists' && code !== 'kernel_dead') throw error;
  }
}

/**
 * The socket is closed although the process seems to run: it is ending, or has just begun. A hanging keeper accepts connections.
 */
function isRefusal(error: unknown): boolean {
  const code = (error as { cause?: { code?: unknown } }).cause?.code;
  return error instanceof KeeperError && ['ECONNREFUSED', 'ECONNRESET', 'ENOENT'].includes(String(code));
}
