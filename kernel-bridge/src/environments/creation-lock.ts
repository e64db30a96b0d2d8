/** At most one process changes an environment at a time. */
import path from 'node:path';
import {
  describeHolder,
  holderOf,
  LockHeldError,
  type ProcessLock,
  takeProcessLock
} from '../platform/process-lock.js';
import { EnvironmentError } from './environment-error.js';

export function lockFileOf(environments: string, name: string): string {
  return path.join(environments, `.${name}.lock`);
}

/** Throws EnvironmentError `env_in_use` when another living process holds it. */
export async function lockEnvironment(environments: string, name: string): Promise<ProcessLock> {
  try {
    return await takeProcessLock(lockFileOf(environments, name));
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    throw new EnvironmentError(
      'env_in_use',
      `The environment "${name}" is being changed by ${describeHolder(error.holder)}; wait until it has ended.`
    );
  }
}

/** Whether a living process holds the lock of this environment. */
export async function isLocked(environments: string, name: string): Promise<boolean> {
  return (await holderOf(lockFileOf(environments, name))) !== null;
}
