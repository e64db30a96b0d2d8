/**
 * Ends a kernel process by the book: ask, insist, kill. The last step is never left out: a kernel in which jax.distributed
 * was initialised swallows SIGTERM and would otherwise keep its devices for ever.
 */
import type { KernelLife } from './kernel-life.js';

export interface LadderOptions {
  /** From the request to SIGKILL. */
  readonly waitMs: number;
  readonly restart: boolean;
  /** A cell is running, so that the kernel would not come to read the request before it ends. */
  readonly busy: boolean;
}

/** Resolves when the process group has gone; rejects with `kernel_unkillable`. Does not close the life's sockets. */
export async function endProcess(life: KernelLife, { waitMs, restart, busy }: LadderOptions): Promise<void> {
  const { process } = life;
  if (process.running) {
    if (busy) {
      process.signal('SIGINT');
    }
    life.requestShutdown(restart);
    if (!(await process.endsWithin(waitMs / 2))) {
      process.signal('SIGTERM');
      if (!(await process.endsWithin(waitMs / 2))) {
        await process.kill();
      }
    }
  }
  await process.groupGone();
}
