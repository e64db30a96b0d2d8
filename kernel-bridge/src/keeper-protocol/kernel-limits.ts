/** How long a kernel may take, beyond what its launch description says. */

/** From the start of the process to the answer to `kernel_info`. Slow disks and cold Python caches need tens of seconds. */
export const KERNEL_START_MS = 120_000;

/** A kernel that ran this long since it was ready has proved that it can: its earlier crashes no longer count. */
export const STABLE_MS = 10_000;

/** A kernel that is taken over and whose control thread is busy, with a debugger for example, is not waited for. */
export const PROOF_MS = 10_000;

/** For the answer to an `interrupt_request` on control. */
export const INTERRUPT_MS = 5_000;

/** From SIGKILL to the end of the process. Longer means uninterruptible sleep, which nobody can end. */
export const KILL_MS = 10_000;

/** For what a dead kernel has sent and nobody has read yet. */
export const DRAIN_MS = 2_000;
