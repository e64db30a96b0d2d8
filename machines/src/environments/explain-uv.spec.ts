import { describe, expect, it } from 'vitest';
import { explainUvFailure } from './environment-error.js';

/** Literal messages of uv 0.13 and of the systems below it. */
const MESSAGES: [string, string, string][] = [
  [
    'env_network',
    'error: Request failed after 3 retries in 7.9s\n  cause: Failed to fetch: http://127.0.0.1:9/simple/six/\n  cause: tcp connect error\n  cause: Connection refused (os error 111)',
    'network'
  ],
  [
    'env_disk_full',
    'error: Failed to install: numpy\n  cause: No space left on device (os error 28)',
    'your quota is full'
  ],
  [
    'env_permission',
    'error: failed to create directory\n  cause: Permission denied (os error 13)',
    '--env-dir'
  ],
  [
    'env_python',
    'error: No interpreter found for Python >=3.20 in managed installations or search path',
    'No Python >=3.20 was found'
  ],
  ['env_package_refused', 'error: Hash mismatch for `six==1.17.0`', 'lock file'],
  ['env_build_failed', 'error: something new', 'something new']
];

describe('a failure of uv', () => {
  it.each(MESSAGES)('has the code %s for its message', (code, words, sentence) => {
    const result = { exitCode: 1, stdout: [], stderr: words.split('\n'), timedOut: false };
    const error = explainUvFailure('installing packages', result, '>=3.20');
    expect(error.code).toBe(code);
    expect(error.message).toContain(sentence);
    expect(error.message.trimEnd()).not.toContain('\n');
  });
});
