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
  it('says for each how many tests passed, failed and are excluded', () => {
    expect(table([row])).toMatch(/✓ some +3 +0 +2 +1/);
  });

  it('counts a test that skipped itself as failed', () => {
    const text = table([{ ...row, counts: { passed: 3, failed: 1, skipped: 3 } }]);
    expect(text).toMatch(/✗ some +3 +2 +2/);
    expect(text).toContain('1 skipped without having been excluded');
  });

  it('takes a suite that did not say what it left out as failed', () => {
    expect(table([{ ...row, excluded: null }])).toMatch(/✗ some +3 +0 +\?/);
  });

  it('takes a suite without any test as failed', () => {
    expect(table([{ ...row, counts: { passed: 0, failed: 0, skipped: 0 } }])).toContain('✗ some');
  });
});
