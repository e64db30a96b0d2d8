/** Whether a notebook's lost kernel ended with its machine. */
import type { MirroredKernel, Remote } from '@tpulab/protocol';

/**
 * `taken`: its remote was preempted. `gone`: the remote is connected, and the kernel no longer exists. `kept`: it still exists.
 * Null: a user has shut it down, or it is unknown so far.
 */
export type Fate = 'taken' | 'gone' | 'kept';

export function fateOf(kernel: MirroredKernel | undefined, remote: Remote | null): Fate | null {
  if (remote?.state === 'preempted') {
    return 'taken';
  }
  if (remote?.state !== 'connected' || kernel === undefined || kernel.wasShutDown) {
    return null;
  }
  switch (kernel.state) {
    case 'ended':
    case 'unknown':
      return 'gone';
    case 'following':
      return 'kept';
    default:
      return null;
  }
}
