// @ts-check
import { describe, expect, it } from 'vitest';
import { explainError, explainFailure, reasonOf, SENTENCES } from './explain-failure.mjs';
import { SetupProblem } from './setup-problem.mjs';

/** Messages of npm, pip and uv. */
const MESSAGES = /** @type {const} */ ([
  ['no-network', 'npm error code ENOTFOUND\nnpm error network request to https://registry.example/x failed'],
  ['no-network', 'npm error code ECONNREFUSED\nnpm error errno ECONNREFUSED'],
  [
    'no-network',
    'WARNING: Retrying (Retry(total=0)) after connection broken by NewConnectionError\nERROR: No matching distribution found for uv==0.13.8'
  ],
  [
    'no-network',
    'error: Request failed after 3 retries\n  cause: dns error\n  cause: failed to lookup address'
  ],
  ['disk-full', 'npm error code ENOSPC\nnpm error syscall write'],
  [
    'disk-full',
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device: '/x'"
  ],
  ['no-permission', "npm error code EACCES\nnpm error Error: EACCES: permission denied, mkdir '/x'"],
  ['no-permission', 'error: failed to create directory\n  cause: Permission denied (os error 13)'],
  ['package-refused', 'npm error code EINTEGRITY\nnpm error sha512-abc integrity checksum failed'],
  ['package-refused', 'error: Hash mismatch for `six==1.17.0`'],
  ['package-refused', 'ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.']
]);

describe('the output of a failing package manager', () => {
  it.each(MESSAGES)('is %s for its words', async (reason, words) => {
    expect(reasonOf(words)).toBe(reason);
    const ended = { exitCode: 1, signal: null, timedOut: false, stdout: [], stderr: words.split('\n') };
    const problem = await explainFailure('installing', ended, []);
    expect(problem.code).toBe(reason);
    expect(problem.message).toBe(SENTENCES[reason]);
    expect(problem.message).toMatch(/^[^\n]+\.$/);
  });

  it('is shown as it is when the reason is unknown', async () => {
    const ended = {
      exitCode: 2,
      signal: null,
      timedOut: false,
      stdout: ['a.ts(1,1): error TS1'],
      stderr: []
    };
    const problem = await explainFailure('compiling', ended, ['/']);
    expect(problem.message).toContain('compiling failed');
    expect(problem.details).toEqual(['a.ts(1,1): error TS1']);
  });
});

describe('a failed file operation', () => {
  it.each(
    /** @type {const} */ ([
      ['ENOSPC', 'disk-full'],
      ['EACCES', 'no-permission'],
      ['EROFS', 'no-permission']
    ])
  )('%s is %s', (errno, reason) => {
    const explained = explainError(Object.assign(new Error(errno), { code: errno }));
    expect(explained).toBeInstanceOf(SetupProblem);
    expect(explained).toMatchObject({ code: reason });
  });

  it('without a known reason stays what it is', () => {
    const error = new Error('a mistake of ours');
    expect(explainError(error)).toBe(error);
  });
});
