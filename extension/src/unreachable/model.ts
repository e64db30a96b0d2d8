/** Whether a notebook's kernel is on a remote that cannot serve it now. */
import type { MirroredKernel, Remote } from '@tpulab/protocol';
import { remoteOfPlace, splitSpecName } from '../backends/spec-names.js';

export interface IAbsentRemote {
  readonly name: string;
  /** `unknown`: the hub has no such remote. `down`: it is not connected. */
  readonly why: 'unknown' | 'down';
}

/** Null for a kernel that is elsewhere, for a connected remote, and for a remote that reconnects automatically. */
export function unreachableRemote(
  specName: string,
  remote: (name: string) => Remote | null,
  isKnown: boolean
): IAbsentRemote | null {
  const name = remoteOfPlace(splitSpecName(specName).place);
  if (name === null) return null;
  const known = remote(name);
  if (known === null) return isKnown ? { name, why: 'unknown' } : null;
  return known.state === 'connected' ? null : { name, why: 'down' };
}

/**
 * `preempted`: its remote was preempted. `lost`: the remote is connected, and the kernel no longer exists. `available`: it still exists.
 * Null: a user has shut it down, or it is unknown so far.
 */
export type KernelOutcome = 'preempted' | 'lost' | 'available';

export function outcomeOf(kernel: MirroredKernel | undefined, remote: Remote | null): KernelOutcome | null {
  if (remote?.state === 'preempted') return 'preempted';
  if (remote?.state !== 'connected' || kernel === undefined || kernel.wasShutDown) return null;
  switch (kernel.state) {
    case 'ended':
    case 'unknown':
      return 'lost';
    case 'following':
      return 'available';
    default:
      return null;
  }
}
