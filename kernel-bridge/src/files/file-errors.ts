/** Why a file could not be read or changed. One class for each decision that a client can take. */
import { BridgeError, errorWith } from '../http/errors.js';

const shown = (path: string): string => JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}…` : path);

export const FilePathError = errorWith(
  'file_path_invalid',
  (path: string, why: string) => `The path ${shown(path)} ${why}; name a file below the root folder.`
);

export const FileNotFoundError = errorWith(
  'file_not_found',
  (path: string) => `There is no ${shown(path)} below the root folder.`
);

export const FileExistsError = errorWith(
  'file_exists',
  (path: string) => `${shown(path)} exists already; choose another name.`
);

/** It is a folder where a file was asked for, or the other way round, or neither. */
export const FileKindError = errorWith(
  'file_wrong_kind',
  (path: string, wanted: 'file' | 'folder') => `${shown(path)} is not a ${wanted}.`
);

/** Somebody else has written it since the version that the client knows. */
export const FileChangedError = errorWith(
  'file_changed',
  (path: string) => `${shown(path)} has changed since it was read; read it again, or save under another name.`
);

export const FileVersionMissingError = errorWith(
  'file_version_missing',
  (path: string) =>
    `${shown(path)} exists; send its version in If-Match to replace it, or If-None-Match: * to create a file.`
);

export const FileTooLargeError = errorWith(
  'file_too_large',
  (path: string, limitBytes: number) =>
    `${shown(path)} is larger than ${limitBytes / 2 ** 20} MiB, the size limit here.`
);

export const FileDeniedError = errorWith(
  'file_denied',
  (path: string) => `The permissions of ${shown(path)} or of its folder forbid that.`
);

export const FileStorageFullError = errorWith(
  'file_storage_full',
  (path: string) =>
    `${shown(path)} was not written, because the disk or the quota is full; its old content is unchanged.`
);

export const FileActionError = errorWith('file_action_failed', (path: string, cause: unknown) => {
  const { code = 'unknown error' } = cause as NodeJS.ErrnoException;
  return `${shown(path)} could not be read or written (${code}).`;
});

/** What the system said, as one of the errors above. */
export function asFileError(error: unknown, path: string): BridgeError {
  if (error instanceof BridgeError) return error;
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new FileNotFoundError(path);
    case 'EEXIST':
    case 'ENOTEMPTY':
      return new FileExistsError(path);
    case 'EISDIR':
      return new FileKindError(path, 'file');
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new FileDeniedError(path, error);
    case 'ENOSPC':
    case 'EDQUOT':
      return new FileStorageFullError(path, error);
    case 'ENAMETOOLONG':
    case 'EINVAL':
      return new FilePathError(path, 'cannot be the name of a file here');
    // A link that leads nowhere, or in a circle.
    case 'ELOOP':
      return new FileNotFoundError(path);
    default:
      return new FileActionError(path, error);
  }
}
