/** How the gateway reaches keepers: those of this machine, as `../keeper` starts and finds them. */
import {
  attachOrAdopt,
  type KeeperEvents,
  KeeperGoneError,
  type KeeperHandle,
  type LaunchDescription,
  type SpareKeeper,
  startKeeper
} from '../keeper/index.js';
import { readKeeperRecord, readLaunch } from '../keeper/keeper-file.js';
import { isSameProcess } from '../processes/process-identity.js';

export interface KeeperAccess {
  /** Starts a keeper for a new kernel; rejects when the keeper or the kernel process could not be started. */
  start(kernelDir: string, launch: LaunchDescription, events: KeeperEvents): Promise<KeeperHandle>;
  /**
   * Connects to the keeper that a folder describes, or to a new one when only the kernel still runs; null when neither does.
   */
  attach(kernelDir: string, events: KeeperEvents): Promise<KeeperHandle | null>;
  /** What the keeper of this folder was started with. */
  launchOf(kernelDir: string): Promise<LaunchDescription>;
  /** Ends the kernel process that a keeper has left behind, if there is one. */
  endOrphan(kernelDir: string): Promise<void>;
}

export const localKeepers: KeeperAccess = {
  start: (kernelDir, launch, events) => startKeeper(launch, { kernelDir }, events),
  launchOf: kernelDir => readLaunch(kernelDir),

  async attach(kernelDir, events) {
    try {
      return await attachOrAdopt(kernelDir, events);
    } catch (error) {
      if (error instanceof KeeperGoneError) return null;
      throw error;
    }
  },

  async endOrphan(kernelDir) {
    const record = await readKeeperRecord(kernelDir);
    if (record?.kernelPid == null || !(await isSameProcess(record.kernelPid, record.kernelProcessStart)))
      return;
    try {
      // The kernel leads a process group of its own; what it started goes with it.
      process.kill(-record.kernelPid, 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
};

/** As `localKeepers`, but a new kernel gets the keeper that waits in `spare`, if one does. */
export function keepersWith(spare: SpareKeeper): KeeperAccess {
  return {
    ...localKeepers,
    start: (kernelDir, launch, events) => startKeeper(launch, { kernelDir }, events, { spare })
  };
}
