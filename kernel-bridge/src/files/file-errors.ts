/** Why a file could not be read or changed. One class for each decision that a client can take. */
import { BridgeError } from '../http/errors.js';

const shown = (path: string): string => JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}…` : path);

export class FilePathError extends BridgeError {
  readonly code = 'file_path_invalid';
  constructor(path: string, why: string) {
    super(`The path ${shown(path)} ${why}; name a file below the root folder.`, { reason: 'Bad Request' });
  }
}

export class FileNotFoundError extends BridgeError {
  readonly code = 'file_not_found';
  constructor(path: string) {
    super(`There is no ${shown(path)} below the root folder.`, { reason: 'Not Found' });
  }
}

export class FileExistsError extends BridgeError {
  readonly code = 'file_exists';
  constructor(path: string) {
    super(`${shown(path)} exists already; choose another name.`, { reason: 'Conflict' });
  }
}

/** It is a folder where a file was asked for, or the other way round, or neither. */
export class FileKindError extends BridgeError {
  readonly code = 'file_wrong_kind';
  constructor(path: string, wanted: 'file' | 'folder') {
    super(`${shown(path)} is not a ${wanted}.`, { reason: 'Conflict' });
  }
}

/** Somebody else has written it since the version that the client knows. */
export class FileChangedError extends BridgeError {
  readonly code = 'file_changed';
  constructor(path: string) {
    super(`${shown(path)} has changed since it was read; read it again, or save under another name.`, {
      reason: 'Precondition Failed'
    });
  }
}

export class FileVersionMissingError extends BridgeError {
  readonly code = 'file_version_missing';
  constructor(path: string) {
    super(
      `${shown(path)} exists; send its version in If-Match to replace it, or If-None-Match: * to create a file.`,
      { reason: 'Precondition Required' }
    );
  }
}

export class FileTooLargeError extends BridgeError {
  readonly code = 'file_too_large';
  constructor(path: string, limitBytes: number) {
    super(
      `${shown(path)} is larger than ${limitBytes / 2 ** 20} MiB, the most that is read or written here.`,
      {
        reason: 'Payload Too Large'
      }
    );
  }
}

export class FileDeniedError extends BridgeError {
  readonly code = 'file_denied';
  constructor(path: string, cause: unknown) {
    super(`The permissions of ${shown(path)} or of its folder forbid that.`, { reason: 'Forbidden', cause });
  }
}

export class FileStorageFullError extends BridgeError {
  readonly code = 'file_storage_full';
  constructor(path: string, cause: unknown) {
    super(
      `${shown(path)} was not written, because the disk or the quota is full; its old content is unchanged.`,
      {
        reason: 'Insufficient Storage',
        cause
      }
    );
  }
}

export class FileActionError extends BridgeError {
  readonly code = 'file_action_failed';
  constructor(path: string, cause: unknown) {
    const { code = 'unknown error' } = cause as NodeJS.ErrnoException;
    super(`${shown(path)} could not be read or written (${code}).`, { cause });
  }
}

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
