// @ts-check
/** One run of one runner: its command line, and the place of its report. */
import path from 'node:path';
import { checkout } from '../setup/checkout.mjs';
import { countJunit, countPlaywright, countVitest } from './counts.mjs';

/**
 * @typedef {object} Step
 * @property {string} command
 * @property {readonly string[]} args
 * @property {Readonly<Record<string, string>>} [env]
 * @property {string} [cwd] the checkout, unless given
 * @property {string} report
 * @property {(text: string) => import('./counts.mjs').Counts} count
 * @property {boolean} [mayFindNone] the changes may affect no test of it
 */

/** `npm run test:long`: also the tests marked `long`, which take long and of which shorter tests cover most. */
const WITH_LONG = process.env['TPULAB_LONG_TESTS'] === '1';

/** Arguments of pytest for whole folders. Files that are named run with their long tests: a file may have no others. */
export const NOT_LONG = WITH_LONG ? [] : ['-m', 'not long'];

/** @param {string} name */
export const reportFile = name => path.join(checkout.reports, name);
/** @param {string} file */
export const inRoot = file => path.join(checkout.root, file);

/**
 * @param {string} name of the report
 * @param {readonly string[]} projects
 * @param {string | null} since only the specs that import changes since this commit; null: all
 * @returns {Step}
 */
export function vitest(name, projects, since) {
  const report = reportFile(`${name}.vitest.json`);
  return {
    command: process.execPath,
    args: [
      inRoot('node_modules/vitest/vitest.mjs'),
      'run',
      ...(since === null ? [] : [`--changed=${since}`]),
      ...projects.map(project => `--project=${project}`),
      ...(WITH_LONG ? [] : ['--tagsFilter=!long']),
      ...['--reporter=dot', '--reporter=json', `--outputFile.json=${report}`]
    ],
    report,
    count: countVitest,
    mayFindNone: since !== null
  };
}

/**
 * @param {string} name of the report
 * @param {string} python
 * @param {readonly string[]} args
 * @param {Readonly<Record<string, string>>} [env]
 * @returns {Step}
 */
export function pytest(name, python, args, env) {
  const report = reportFile(`${name}.junit.xml`);
  return {
    command: python,
    args: ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', '--color=no', `--junitxml=${report}`, ...args],
    ...(env ? { env } : {}),
    report,
    count: countJunit
  };
}

/**
 * Two processes of pytest at a time. A compiler mostly keeps one core busy; tests of one file (or class, which runs one notebook)
 * stay together, because they share costly fixtures.
 * @param {'loadfile' | 'loadscope'} together
 */
export const inTwo = together => ['-n', '2', '--dist', together, '--no-loadscope-reorder'];

/**
 * @param {string} name of the report
 * @param {string} chromium
 * @param {readonly string[]} files none: all
 * @param {Readonly<Record<string, string>>} [env] which files (`ui-tests/playwright.config.ts`)
 * @returns {Step}
 */
export function playwright(name, chromium, files, env) {
  const report = reportFile(`${name}.playwright.json`);
  return {
    command: process.execPath,
    args: [
      inRoot('node_modules/@playwright/test/cli.js'),
      'test',
      ...['-c', inRoot('ui-tests/playwright.config.ts'), '--reporter=list,json'],
      ...(WITH_LONG || files.length > 0 ? [] : ['--grep-invert=@long']),
      ...files
    ],
    env: { ...env, TPULAB_CHROMIUM: chromium, PLAYWRIGHT_JSON_OUTPUT_FILE: report },
    report,
    count: countPlaywright
  };
}
