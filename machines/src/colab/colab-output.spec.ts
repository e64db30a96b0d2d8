import { describe, expect, it } from 'vitest';
import { isNotFound, supportsSsh, parseRuntimes, parseUsage, parseVersion } from './colab-command.js';
import { explainColab } from './colab-problem.js';

const BANNER = [
  '',
  '[colab] A new version of Colab CLI is available: 0.7.6 (current: 0.7.5)',
  "[colab] Run 'colab update' to update.",
  ''
];

describe('the output of colab', () => {
  it('is parsed between a banner and pruned sessions', () => {
    const usage = ['Current balance: 12.50 compute units', 'Usage rate: 1.76/hr', 'Active assignments: 2'];
    expect(parseUsage([...BANNER, ...usage])).toEqual({ balance: 12.5, ratePerHour: 1.76, runtimes: 2 });
    expect(parseVersion([...BANNER, 'Version: 0.7.5'])).toBe('0.7.5');
    const pruned = '[colab] Pruned 1 stale local session(s).';
    const line =
      '[tpulab-ab12] tpu-v5e1-s-x | Hardware: V5E1 | Shape: Standard | Variant: TPU | Status: IDLE';
    expect(parseRuntimes([pruned, line, line.replace('tpulab-ab12', '?')])).toEqual([
      { session: 'tpulab-ab12', endpoint: 'tpu-v5e1-s-x', hardware: 'V5E1' },
      { session: null, endpoint: 'tpu-v5e1-s-x', hardware: 'V5E1' }
    ]);
    expect(isNotFound([pruned, "[colab] Session 'a' not found."], 'a')).toBe(true);
    expect(isNotFound(["[colab] Session 'a' not found."], 'b')).toBe(false);
  });

  it.each([[[]], [['Current balance: 1.00 compute units']], [['Usage rate: 1.76/hr']]])(
    'is not a usage when it is %j',
    lines => expect(parseUsage(lines)).toBeNull()
  );

  it.each([
    ['0.6.0', false],
    ['0.7.1', false],
    ['0.7.2', true],
    ['0.7.5', true],
    ['1.0.0', true],
    ['4f3a2b1', true]
  ])('of version %s supports ssh: %s', (version, knows) => expect(supportsSsh(version)).toBe(knows));
});

describe('a failure of colab', () => {
  it('is classified as 403 even if it explains 404', () => {
    const words =
      'Forbidden (HTTP 403): the server refused this. (A runtime without SSH enabled returns 404, not 403.)';
    expect(explainColab([words])?.code).toBe('colab_forbidden');
  });

  it('is not reported if only ssh has failed', () => {
    const lines = ['kex_exchange_identification: Connection closed by remote host', 'UNKNOWN port 65535'];
    expect(explainColab(lines)).toBeNull();
  });
});
