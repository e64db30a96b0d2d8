/** Whether a kernel that a notebook has lost went with its machine, and what to say then. */
import type { MirroredKernel, Remote } from '@tpulab/protocol';

/**
 * `restarted`: its remote is connected, and the kernel is not there any more. `taken`: the cloud has taken the machine back.
 * Null: somebody has shut it down, or nobody knows yet.
 */
export type WhyGone = 'restarted' | 'taken';

export function whyGone(kernel: MirroredKernel | undefined, remote: Remote | null): WhyGone | null {
  if (remote?.state === 'preempted') {
    return 'taken';
  }
  const hasEnded = kernel?.state === 'ended' && !kernel.wasShutDown;
  return remote?.state === 'connected' && hasEnded ? 'restarted' : null;
}
