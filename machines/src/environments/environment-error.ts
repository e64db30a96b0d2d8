/**
 * Failures of `tpulab env` and `tpulab examples`. The code is stable, for programs; the message is one sentence with
 * the remedy. The state of a creation contains its failure, so the codes have no HTTP status.
 */
import { CodedError } from '@tpulab/platform/errors.js';
import { fullDisk } from '@tpulab/platform/full-disk.js';
import { type Cause, matchCause } from '@tpulab/platform/known-causes.js';
import type { ProgramResult } from './run-program.js';

export const ENVIRONMENT_ERROR_CODES = [
  'env_unknown',
  'env_definition_invalid',
  'env_definitions_missing',
  'env_not_created',
  'env_in_use',
  'env_uv_missing',
  'env_agent_missing',
  'env_recipes_missing',
  'env_python',
  'env_network',
  'env_disk_full',
  'env_permission',
  'env_package_refused',
  'env_build_failed',
  'env_check_failed',
  'env_interrupted',
  'env_added_packages',
  'env_not_usable',
  'env_compiler_unsupported',
  'lessons_missing',
  'lessons_not_written'
] as const;

export type EnvironmentErrorCode = (typeof ENVIRONMENT_ERROR_CODES)[number];

export class EnvironmentError extends CodedError<EnvironmentErrorCode> {}

/** Converts a failed file operation into an EnvironmentError, if a person can remove its cause. */
export function explainFileFailure(error: unknown, folder: string): Error {
  if (error instanceof EnvironmentError) return error;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  const full = fullDisk(error);
  if (full !== null)
    return new EnvironmentError(
      'env_disk_full',
      `${folder} cannot be written, because ${full.why}; ${full.remedy} (an environment with PyTorch needs 8 GB, others 2 GB) and try again.`,
      { cause: error }
    );
  switch (code) {
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

/* Converts uv's output after a failure into one sentence with a remedy. */

// The order matters: a full disk also appears as a failed write, and a refused hash as a failed download.
const CAUSES: readonly Cause<EnvironmentErrorCode, string>[] = [
  {
    pattern: /no space left on device|os error 28\b|quota exceeded|os error 122\b/i,
    code: 'env_disk_full',
    message:
      'The disk or your quota is full, by size or by number of files ("df -h", "df -i" and "quota -s" show which); free some (an environment with PyTorch needs 8 GB, others 2 GB) and try again.'
  },
  {
    pattern: /hash mismatch|hashes? (?:do|does) not match/i,
    code: 'env_package_refused',
    message:
      'A downloaded package differs from the lock file; clear the cache (`uv cache clean`) and check your package index.'
  },
  {
    pattern: /permission denied|os error 13\b|read-only file system|os error 30\b|operation not permitted/i,
    code: 'env_permission',
    message: 'A folder is not writable; choose another with --env-dir, or change its permissions.'
  },
  {
    pattern: /no interpreter found|no virtual environment found|requires-python|not a valid python/i,
    code: 'env_python',
    message: ({ facts: python }) => `No Python ${python} was found; install one, or name it with --python.`
  },
  {
    pattern:
      /client error \(connect\)|dns error|failed to lookup|network is unreachable|connection (?:refused|reset)|timed out|network connectivity|error sending request|connectivity is disabled|failed to fetch|failed to download|invalid peer certificate/i,
    code: 'env_network',
    message:
      'The packages could not be downloaded; check the network (proxy: HTTPS_PROXY, package index: UV_DEFAULT_INDEX) and try again.'
  },
  {
    pattern:
      /has no wheels? with a matching|no solution found|doesn't have a (?:source distribution|wheel)|not found in the package registry/i,
    code: 'env_package_refused',
    message:
      'A package of the lock file does not exist for this system and Python; the environments run on Linux and macOS (x86_64, arm64).'
  }
];

/** `doing` names the failed action, for example `installing packages`. */
export function explainUvFailure(doing: string, result: ProgramResult, python: string): EnvironmentError {
  const found = matchCause(CAUSES, [...result.stderr, ...result.stdout], python);
  const lastLines = lastOutput(result);
  if (!found) {
    return new EnvironmentError(
      'env_build_failed',
      `uv failed while ${doing} (exit code ${result.exitCode ?? 'none'}): ${lastLines}`
    );
  }
  return new EnvironmentError(found.code, found.message, { cause: new Error(`${doing}: ${lastLines}`) });
}

/** uv's last output, including its cause lines, in one line. */
function lastOutput(result: ProgramResult): string {
  const lines = result.stderr.map(line => line.trim()).filter(line => line !== '');
  const start = lines.findLastIndex(line => line.startsWith('error:'));
  return (
    lines
      .slice(start < 0 ? -2 : start)
      .slice(0, 4)
      .join(' ') || 'it said nothing'
  );
}
