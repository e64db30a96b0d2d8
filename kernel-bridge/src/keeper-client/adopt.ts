/**
 * Connects to a kernel's keeper, and gives a kernel that has lost its keeper another one. Several may try at once: keepers
 * lock the folder of their kernel, so one of them takes over and the others attach to it.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { attachKeeper } from './attach.js';
import type { KeeperEvents } from '../keeper-protocol/contract.js';
import type { KeeperClient } from './client.js';
import { KeeperError, KeeperGoneError } from '../keeper-protocol/keeper-error.js';
import { launchKeeper, type LaunchOptions } from './launch.js';

/** A killed process loses its sockets a moment before it is gone, and a new keeper has its lock before it listens. */
const UNSETTLED_MS = 60_000;
const AGAIN_MS = 50;

export interface AdoptOptions extends LaunchOptions {
  /** How long a keeper that accepts may take to say hello. */
  readonly helloMs?: number;
}

/**
 * Rejects with `KeeperGoneError` when keeper and kernel have both ended, and with `KeeperError` when a keeper runs but does not
 * answer, or none could be started.
 */
export async function attachOrAdopt(
  kernelDir: string,
  events: KeeperEvents,
  options: AdoptOptions = {}
): Promise<KeeperClient> {
  const attach = {
    ...(options.signal === undefined ? {} : { signal: options.signal }),
    ...(options.helloMs === undefined ? {} : { timeoutMs: options.helloMs })
  };
  for (const deadline = performance.now() + UNSETTLED_MS; ;) {
    try {
      return await attachKeeper(kernelDir, events, attach);
    } catch (error) {
      const isGone = error instanceof KeeperGoneError;
      const goesOn = isGone ? error.keeper.orphanPid !== null : isRefusal(error);
      if (!goesOn || performance.now() > deadline) throw error;
      if (isGone) await adopt(kernelDir, options);
    }
    await delay(AGAIN_MS, undefined, options.signal === undefined ? {} : { signal: options.signal });
  }
}

/** Somebody else may be quicker, and the kernel may have ended meanwhile: the next look finds what has become of it. */
async function adopt(kernelDir: string, options: LaunchOptions): Promise<void> {
  try {
    await launchKeeper('adopt', kernelDir, options);
  } catch (error) {
    const { code } = error as KeeperError;
    if (code !== 'keeper_exists' && code !== 'kernel_dead') throw error;
  }
}

/** The socket is closed although the process seems to run: it is ending, or has only begun. A hanging one accepts. */
function isRefusal(error: unknown): boolean {
  const code = (error as { cause?: { code?: unknown } }).cause?.code;
  return error instanceof KeeperError && ['ECONNREFUSED', 'ECONNRESET', 'ENOENT'].includes(String(code));
}
