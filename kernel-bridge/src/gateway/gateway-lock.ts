/** One gateway per state folder. */
import path from 'node:path';
import { LockHeldError, type ProcessLock, takeProcessLock } from '../platform/process-lock.js';
import { ServeError } from '../http/server-errors.js';

/** Takes the lock or throws `state_dir_in_use`. Disposing gives it back. */
export async function lockStateFolder(folder: string): Promise<ProcessLock> {
  try {
    return await takeProcessLock(path.join(folder, 'gateway.lock'));
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    throw new ServeError(
      'state_dir_in_use',
      `A gateway (pid ${error.holder.pid}) already serves ${folder}; use it, stop it with "tpulab stop", or choose another folder with --state-dir.`
    );
  }
}
