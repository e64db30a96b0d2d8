/** How the gateway reaches keepers: those of this machine, as `../keeper` starts and finds them. */
import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { measureSegments } from '../journal/index.js';
import {
  type AdoptOptions,
  attachOrAdopt,
  KeeperError,
  type KeeperEvents,
  KeeperGoneError,
  type KeeperHandle,
  type KernelSnapshot,
  type LaunchDescription,
  type SpareKeeper,
  startKeeper
} from './index.js';
import {
  kernelPaths,
  type KernelPresence,
  presenceOfKernel,
  readKeeperRecord,
  readLaunch
} from '../keeper-protocol/keeper-file.js';
import { isSameProcess } from '../platform/process-identity.js';

export interface KeeperOptions {
  /** A new kernel gets the keeper that waits there, if one does. */
  readonly spare?: SpareKeeper | null;
  /** A keeper that has not said hello after this time counts as silent. */
  readonly helloMs?: number;
}

export type KeeperAccess = ReturnType<typeof localKeepers>;

/** A killed process goes when what it was doing in the operating system has ended. */
const KILL_MS = 10_000;
const LOOK_AGAIN_MS = 20;

/** From `launch.json` to the keeper's lock: a process starts and loads its program, on a machine that may be busy. */
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
      attach(kernelDir, events, {
        ...(signal === undefined ? {} : { signal }),
        ...(helloMs === undefined ? {} : { helloMs })
      }),

    /** Whether the folder describes a keeper or a kernel that runs, and where. */
    presence: (kernelDir: string): Promise<KernelPresence> => presenceOfKernel(kernelDir),

    /** What the keeper of this folder was started with. */
    launchOf: (kernelDir: string): Promise<LaunchDescription> => readLaunch(kernelDir),
    presumed,
    endOrphan,
    endSilent
  };
}

/** What the files say of a kernel whose keeper does not: `unknown`, without a newest record. */
async function presumed(kernelDir: string): Promise<KernelSnapshot> {
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

/** Ends a keeper that does not answer, and its kernel. Nothing that is written is lost; it cannot be asked any more. */
async function endSilent(kernelDir: string): Promise<void> {
  const { record, presence } = await presenceOfKernel(kernelDir);
  if (record === null || presence !== 'here') return;
  const runs = (): Promise<boolean> => isSameProcess(record.pid, record.processStart);
  if (await runs()) {
    kill(record.pid);
    for (const deadline = performance.now() + KILL_MS; await runs();) {
      if (performance.now() > deadline)
        throw new Error(`The keeper (process ${record.pid}) does not answer and cannot be killed.`);
      await delay(LOOK_AGAIN_MS);
    }
  }
  await endOrphan(kernelDir);
}

/** Ends the kernel process that a keeper has left behind, if there is one. */
async function endOrphan(kernelDir: string): Promise<void> {
  const { record, presence } = await presenceOfKernel(kernelDir);
  if (presence !== 'here' || record?.kernelPid == null) return;
  if (!(await isSameProcess(record.kernelPid, record.kernelProcessStart))) return;
  // The kernel leads a process group of its own; what it started goes with it.
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
    if (!(error instanceof KeeperGoneError)) throw error;
    if (error.keeper.keeperPid !== null || !(await isBeginning(kernelDir))) return null;
    throw new KeeperError(
      'keeper_timeout',
      `The keeper of kernel ${error.keeper.kernelId} is being started; see its keeper.log.`
    );
  }
}

/**
 * A gateway that was killed may have started a keeper just now, which has not come as far as its lock and its journal. Of a
 * start that failed the gateway removes what this looks at.
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
