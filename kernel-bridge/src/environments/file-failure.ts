/** Turns a failed file operation into an EnvironmentError: the reasons that a person can do something about. */
import { EnvironmentError } from './environment-error.js';

export function explainFileFailure(error: unknown, folder: string): Error {
  if (error instanceof EnvironmentError) return error;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  switch (code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return new EnvironmentError(
        'env_disk_full',
        `The disk with ${folder} is full; free some space (an environment with PyTorch needs 8 GB, others 2 GB) and try again.`,
        { cause: error }
      );
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new EnvironmentError(
        'env_permission',
        `${folder} cannot be written; choose another folder with --env-dir, or change its permissions.`,
        { cause: error }
      );
    case 'ENOTDIR':
    case 'EEXIST':
      return new EnvironmentError(
        'env_permission',
        `${folder} is not a folder; choose another with --env-dir.`,
        { cause: error }
      );
    default:
      return error instanceof Error ? error : new Error(String(error));
  }
}
