// @ts-check
import { describe, expect, it } from 'vitest';
import { add, countChecks, countJunit, countPlaywright, countVitest, NONE, readCounts } from './counts.mjs';

describe('counting what the runners report', () => {
  it('takes failures and errors of pytest as failed', () => {
    const xml =
      '<?xml version="1.0"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="2" ' +
      'skipped="3" tests="10" time="0.1"><testcase name="tests=&quot;9&quot;"/></testsuite></testsuites>';
    expect(countJunit(xml)).toEqual({ passed: 4, failed: 3, skipped: 3 });
  });

  it('counts a spec file that could not be loaded as failed', () => {
    const report = {
      numPassedTests: 5,
      numFailedTests: 1,
      numPendingTests: 2,
      testResults: [
        { status: 'failed', assertionResults: [{ status: 'failed' }] },
        { status: 'failed', assertionResults: [] },
        { status: 'passed', assertionResults: [{ status: 'passed' }] }
      ]
    };
    expect(countVitest(JSON.stringify(report))).toEqual({ passed: 5, failed: 2, skipped: 2 });
  });

  it('counts errors outside of browser tests as failed', () => {
    const report = {
      stats: { expected: 3, unexpected: 1, flaky: 1, skipped: 2 },
      errors: [{ message: 'x' }]
    };
    expect(countPlaywright(JSON.stringify(report))).toEqual({ passed: 4, failed: 2, skipped: 2 });
  });

  it('counts each check', () => {
    expect(countChecks('[{"ok":true},{"ok":false},{"ok":true}]')).toEqual({
      passed: 2,
      failed: 1,
      skipped: 0
    });
  });

  it('adds the counts of several reports', () => {
    expect(
      add({ passed: 1, failed: 2, skipped: 3 }, add(NONE, { passed: 10, failed: 20, skipped: 30 }))
    ).toEqual({
      passed: 11,
      failed: 22,
      skipped: 33
    });
  });

  it('reports a runner that has written no report', async () => {
    expect(await readCounts('/nowhere/report.xml', countJunit)).toBeNull();
  });
});
