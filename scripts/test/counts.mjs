// @ts-check
/** How many tests passed, failed and were skipped, from the reports of the runners. */
import { readFile } from 'node:fs/promises';

/**
 * @typedef {object} Counts
 * @property {number} passed
 * @property {number} failed
 * @property {number} skipped
 */

/** @type {Readonly<Counts>} */
export const NONE = Object.freeze({ passed: 0, failed: 0, skipped: 0 });

/**
 * @param {Counts} one
 * @param {Counts} other
 * @returns {Counts}
 */
export function add(one, other) {
  return {
    passed: one.passed + other.passed,
    failed: one.failed + other.failed,
    skipped: one.skipped + other.skipped
  };
}

/** @param {Counts} counts */
export function total(counts) {
  return counts.passed + counts.failed + counts.skipped;
}

/**
 * Report of `npm run check -- --report`.
 *
 * @param {string} text
 * @returns {Counts}
 */
export function countChecks(text) {
  const report = /** @type {{ ok: boolean }[]} */ (JSON.parse(text));
  const passed = report.filter(check => check.ok).length;
  return { passed, failed: report.length - passed, skipped: 0 };
}

/**
 * Vitest's JSON report. A file that could not be loaded has no tests and counts as a failed one.
 *
 * @param {string} text
 * @returns {Counts}
 */
export function countVitest(text) {
  const report =
    /** @type {{ numPassedTests: number, numFailedTests: number, numPendingTests: number, numTodoTests?: number, testResults: { status: string, assertionResults: { status: string }[] }[] }} */ (
      JSON.parse(text)
    );
  const broken = report.testResults.filter(
    file => file.status === 'failed' && !file.assertionResults.some(test => test.status === 'failed')
  ).length;
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + broken,
    skipped: report.numPendingTests + (report.numTodoTests ?? 0)
  };
}

/**
 * Playwright's JSON report. A flaky test passed in the end; without retries there is none.
 *
 * @param {string} text
 * @returns {Counts}
 */
export function countPlaywright(text) {
  const report =
    /** @type {{ stats: { expected: number, unexpected: number, flaky: number, skipped: number }, errors?: unknown[] }} */ (
      JSON.parse(text)
    );
  const { expected, unexpected, flaky, skipped } = report.stats;
  // Errors outside a test, of a file that could not be loaded for example.
  return { passed: expected + flaky, failed: unexpected + (report.errors?.length ?? 0), skipped };
}

/**
 * JUnit XML as pytest writes it: the sums are in the attributes of each testsuite.
 *
 * @param {string} text
 * @returns {Counts}
 */
export function countJunit(text) {
  let counts = NONE;
  for (const [tag] of text.matchAll(/<testsuite\s[^>]*>/g)) {
    const of = (/** @type {string} */ name) => Number(new RegExp(`\\s${name}="(\\d+)"`).exec(tag)?.[1] ?? 0);
    const failed = of('failures') + of('errors');
    const skipped = of('skipped');
    counts = add(counts, { passed: Math.max(0, of('tests') - failed - skipped), failed, skipped });
  }
  return counts;
}

/**
 * @param {string} file
 * @param {(text: string) => Counts} count
 * @returns {Promise<Counts | null>} null: the runner wrote no report
 */
export async function readCounts(file, count) {
  let text;
  try {
    text = await readFile(file, 'utf8');
  } catch {
    return null;
  }
  return count(text);
}
