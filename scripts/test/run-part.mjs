// @ts-check
/** Runs one part of the tests and counts. */
import { mkdir, rm } from 'node:fs/promises';
import { checkout } from '../setup/checkout.mjs';
import { run } from '../setup/run-command.mjs';
import { Interrupted, SetupProblem } from '../setup/setup-problem.mjs';
import { add, NONE, readCounts, total } from './counts.mjs';
import { failedTests } from './reported-tests.mjs';

/**
 * @typedef {object} PartResult
 * @property {string} name
 * @property {import('./counts.mjs').Counts} counts
 * @property {number} ms
 * @property {readonly string[]} problems failures outside single tests
 * @property {readonly string[]} failures a line for each failed test
 */

/**
 * @param {Pick<import('./parts.mjs').Part, 'name' | 'limitMin' | 'steps'>} part
 * @param {AbortSignal} signal
 * @param {(line: string) => void} print
 * @param {import('./parts.mjs').Selection} [selection] all of its tests, unless given
 * @returns {Promise<PartResult>}
 */
export async function runPart(part, signal, print, selection = { since: null, files: [] }) {
  const since = performance.now();
  let counts = NONE;
  /** @type {string[]} */
  const problems = [];
  /** @type {string[]} */
  const failures = [];
  await mkdir(checkout.reports, { recursive: true });
  try {
    for (const step of await part.steps(signal, print, selection)) {
      const remainingMs = part.limitMin * 60_000 - (performance.now() - since);
      const outcome = await runStep(step, Math.max(1000, remainingMs), signal, print);
      counts = add(counts, outcome.counts);
      problems.push(...outcome.problems);
      failures.push(...outcome.failures);
    }
  } catch (error) {
    if (error instanceof Interrupted) throw error;
    if (!(error instanceof SetupProblem)) throw error;
    problems.push(error.message);
    print(error.message);
    counts = add(counts, { ...NONE, failed: 1 });
  }
  return { name: part.name, counts, ms: performance.now() - since, problems, failures };
}

/**
 * @param {import('./steps.mjs').Step} step
 * @param {number} timeoutMs
 * @param {AbortSignal} signal
 * @param {(line: string) => void} print
 */
async function runStep(step, timeoutMs, signal, print) {
  await rm(step.report, { force: true });
  const ended = await run(step.command, step.args, {
    cwd: step.cwd ?? checkout.root,
    signal,
    timeoutMs,
    // CI: runners prompt for nothing, watch nothing and open nothing. NODE_ENV: with `production` in the shell we would
    // test React without its `act`.
    // Compilation cache: the compilations of a test must not depend on the cache of an earlier run.
    // Threads: they are for large matrices. Two processes whose threads wait for each other at small ones, spinning, take a
    // third longer.
    env: {
      CI: 'true',
      OMP_NUM_THREADS: '1',
      NODE_ENV: undefined,
      FORCE_COLOR: '0',
      NO_COLOR: '1',
      TPULAB_COMPILATION_CACHE: 'off',
      ...step.env
    },
    onLine: print,
    keptLines: 50
  });
  const read = await readCounts(step.report, step.count);
  const counts = read ?? NONE;
  const what = step.report.slice(checkout.reports.length + 1);
  /** @type {string[]} */
  const problems = [];
  if (ended.timedOut) problems.push(`${what}: ended after ${Math.round(timeoutMs / 60_000)} min, its limit`);
  else if (read === null) problems.push(`${what}: the runner wrote no report`);
  else if (total(counts) === 0 && step.mayFindNone !== true) problems.push(`${what}: no test was found`);
  else if (ended.exitCode !== 0 && counts.failed === 0) {
    problems.push(`${what}: the runner failed (${ended.exitCode ?? ended.signal}) though no test did`);
  }
  // A failure outside a test is a failure too, and is counted as one.
  return {
    counts: add(counts, { ...NONE, failed: problems.length }),
    problems,
    failures: counts.failed === 0 ? [] : await failedTests(step.report)
  };
}
