// @ts-check
import { describe, expect, it } from 'vitest';
import { table } from './conformance.mjs';

const row = {
  name: 'some',
  counts: { passed: 3, failed: 0, skipped: 0 },
  excluded: 2,
  ms: 1000,
  problems: []
};

describe('the table of the suites', () => {
  it('lists for each how many tests passed, failed and are excluded', () => {
    expect(table([row])).toMatch(/✓ some +3 +0 +2 +1/);
  });

  it('counts a test that skipped itself as failed', () => {
    const text = table([{ ...row, counts: { passed: 3, failed: 1, skipped: 3 } }]);
    expect(text).toMatch(/✗ some +3 +2 +2/);
    expect(text).toContain('1 skipped without having been excluded');
  });

  it('counts a suite without a list of exclusions as failed', () => {
    expect(table([{ ...row, excluded: null }])).toMatch(/✗ some +3 +0 +\?/);
  });

  it('takes a suite without any test as failed', () => {
    expect(table([{ ...row, counts: { passed: 0, failed: 0, skipped: 0 } }])).toContain('✗ some');
  });
});
