/** Whether a kernel that a notebook has lost went with its machine. */
import type { MirroredKernel, Remote } from '@tpulab/protocol';

/**
 * `taken`: its remote was preempted. `gone`: the remote is connected, and the kernel is not there any more. `kept`: it is still there.
 * Null: somebody has shut it down, or nobody knows yet.
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
