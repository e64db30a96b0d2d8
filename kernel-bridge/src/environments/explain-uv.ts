/** Turns what uv printed when it failed into one sentence with a remedy. */
import { EnvironmentError, type EnvironmentErrorCode } from './environment-error.js';
import { type Cause, knownCause } from '../platform/known-causes.js';
import type { ProgramResult } from './run-program.js';

// In this order: a full disk also shows as a failed write, a refused hash also as a failed download.
const CAUSES: readonly Cause<EnvironmentErrorCode, string>[] = [
  {
    pattern: /no space left on device|os error 28\b|quota exceeded|os error 122\b/i,
    code: 'env_disk_full',
    say: 'The disk is full; free some space (an environment with PyTorch needs 8 GB, others 2 GB) and try again.'
  },
  {
    pattern: /hash mismatch|hashes? (?:do|does) not match/i,
    code: 'env_package_refused',
    say: 'A downloaded package differs from the lock file; clear the cache (`uv cache clean`) and check your package index.'
  },
  {
    pattern: /permission denied|os error 13\b|read-only file system|os error 30\b|operation not permitted/i,
    code: 'env_permission',
    say: 'A folder is not writable; choose another with --env-dir, or change its permissions.'
  },
  {
    pattern: /no interpreter found|no virtual environment found|requires-python|not a valid python/i,
    code: 'env_python',
    say: ({ facts: python }) => `No Python ${python} was found; install one, or name it with --python.`
  },
  {
    pattern:
      /client error \(connect\)|dns error|failed to lookup|network is unreachable|connection (?:refused|reset)|timed out|network connectivity|error sending request|connectivity is disabled|failed to fetch|failed to download|invalid peer certificate/i,
    code: 'env_network',
    say: 'The packages could not be downloaded; check the network (proxy: HTTPS_PROXY, package index: UV_DEFAULT_INDEX) and try again.'
  },
  {
    pattern:
      /has no wheels? with a matching|no solution found|doesn't have a (?:source distribution|wheel)|not found in the package registry/i,
    code: 'env_package_refused',
    say: 'A package of the lock file does not exist for this system and Python; the environments run on Linux and macOS (x86_64, arm64).'
  }
];

/** `doing` says what was tried, for example `installing packages`. */
export function explainUvFailure(doing: string, result: ProgramResult, python: string): EnvironmentError {
  const found = knownCause(CAUSES, [...result.stderr, ...result.stdout], python);
  const said = lastWords(result);
  if (!found) {
    return new EnvironmentError(
      'env_build_failed',
      `uv failed while ${doing} (exit code ${result.exitCode ?? 'none'}): ${said}`
    );
  }
  return new EnvironmentError(found.code, found.message, { cause: new Error(`${doing}: ${said}`) });
}

/** What uv said last, its cause lines included, in one line. */
function lastWords(result: ProgramResult): string {
  const lines = result.stderr.map(line => line.trim()).filter(line => line !== '');
  const start = lines.findLastIndex(line => line.startsWith('error:'));
  return (
    lines
      .slice(start < 0 ? -2 : start)
      .slice(0, 4)
      .join(' ') || 'it said nothing'
  );
}
