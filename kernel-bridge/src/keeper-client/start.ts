/** Starts a kernel with a keeper of its own. */
import { mkdir } from 'node:fs/promises';
import { attachKeeper } from './attach.js';
import type { KeeperEvents, LaunchDescription } from '../keeper-protocol/contract.js';
import type { KeeperClient } from './client.js';
import { writeForThisBoot } from '../platform/write-atomically.js';
import { kernelPaths } from '../keeper-protocol/keeper-file.js';
import { launchKeeper, type LaunchOptions } from './launch.js';
import type { SpareKeeper } from './spare-keeper.js';

export interface KeeperDirs {
  /** `<state>/kernels/<id>`: made if it does not exist. */
  readonly kernelDir: string;
}

export interface StartOptions extends LaunchOptions {
  /** Where a keeper may wait that can be had at once. */
  readonly spare?: SpareKeeper;
}

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
  await writeForThisBoot(kernelPaths(kernelDir).launch, launch);
  const child = await (options.spare?.take(kernelDir, options) ?? launchKeeper('start', kernelDir, options));
  try {
    return await attachKeeper(
      kernelDir,
      events,
      options.signal === undefined ? {} : { signal: options.signal }
    );
  } catch (error) {
    // SIGTERM: the keeper ends its kernel in order before it ends itself.
    child.kill('SIGTERM');
    throw error;
  }
}
