// @ts-check
/** Single tests of the last run, read from the reports of the runners: the slowest, and the failed ones. */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

/**
 * @typedef {object} ReportedTest
 * @property {string} name file and test
 * @property {number} ms its own time; the setup of a file for all its tests may count for the first of them
 * @property {string} [error] its first line; missing: it did not fail
 */

/** Length of one line of a summary. */
const MAX_ERROR_CHARS = 500;

/**
 * By the end of the report's name.
 *
 * @type {readonly (readonly [string, (text: string) => ReportedTest[]])[]}
 */
const FORMATS = [
  ['check.json', testsOfChecks],
  ['.vitest.json', testsOfVitest],
  ['.playwright.json', testsOfPlaywright],
  ['.junit.xml', testsOfJunit]
];

/**
 * @param {string} folder of the reports
 * @param {number} count
 * @returns {Promise<(ReportedTest & { report: string })[]>} slowest first; empty where nothing has run yet
 */
export async function slowestTests(folder, count) {
  const names = await readdir(folder).catch(() => /** @type {string[]} */ ([]));
  const found = await Promise.all(
    names.map(async name => {
      const end = FORMATS.find(([suffix]) => name.endsWith(suffix))?.[0] ?? '';
      const report = name === end ? 'check' : name.slice(0, -end.length);
      return (await readTests(path.join(folder, name))).map(test => ({ ...test, report }));
    })
  );
  return found
    .flat()
    .sort((one, other) => other.ms - one.ms)
    .slice(0, count);
}

/**
 * @param {string} report its file
 * @returns {Promise<string[]>} a line for each failed test
 */
export async function failedTests(report) {
  const tests = await readTests(report);
  return tests.flatMap(({ name, error }) => (error === undefined ? [] : [`${name}: ${error}`]));
}

/** @param {string} file */
async function readTests(file) {
  const read = FORMATS.find(([suffix]) => file.endsWith(suffix))?.[1];
  return read ? read(await readFile(file, 'utf8')) : [];
}

/**
 * A message in one line, and its place: the only remains of a run whose whole output was not stored.
 *
 * @param {string | undefined} text
 * @param {string} [place]
 */
function inOneLine(text, place) {
  // Playwright colours its messages.
  const lines = (text ?? '').replace(/\u001b\[[0-9;]*m/g, '').split('\n');
  const isFrame = (/** @type {string} */ line) => /^\s+at /.test(line);
  const frame = lines.find(line => isFrame(line) && !line.includes('node_modules'));
  const end = lines.findIndex(line => isFrame(line) || /^(Call log|\s+\+\s)/.test(line));
  const message = (end === -1 ? lines : lines.slice(0, end)).join(' ').replace(/\s+/g, ' ').trim();
  const where = place ?? /[^/\s(]+:\d+:\d+/.exec(frame ?? '')?.[0];
  return `${message.slice(0, MAX_ERROR_CHARS) || 'no message'}${where === undefined ? '' : ` (${where})`}`;
}

/**
 * @param {string} text
 * @returns {ReportedTest[]}
 */
function testsOfChecks(text) {
  return /** @type {{ name: string, ok: boolean, ms: number }[]} */ (JSON.parse(text)).map(
    ({ name, ok, ms }) => ({ name, ms, ...(ok ? {} : { error: 'see above' }) })
  );
}

/**
 * A file that could not be loaded counts as one test.
 *
 * @param {string} text
 * @returns {ReportedTest[]}
 */
export function testsOfVitest(text) {
  const report =
    /** @type {{ testResults: { name: string, status: string, message?: string, assertionResults: { fullName: string, status: string, duration?: number | null, failureMessages?: string[] }[] }[] }} */ (
      JSON.parse(text)
    );
  return report.testResults.flatMap(({ name, status, message, assertionResults }) => {
    const file = path.basename(name);
    const tests = assertionResults.map(test => ({
      name: `${file}: ${test.fullName.trim()}`,
      ms: test.duration ?? 0,
      ...(test.status === 'failed' ? { error: inOneLine(test.failureMessages?.[0]) } : {})
    }));
    const isBroken = status === 'failed' && !tests.some(test => 'error' in test);
    return isBroken ? [...tests, { name: file, ms: 0, error: inOneLine(message) }] : tests;
  });
}

/** @typedef {{ message?: string, location?: { file: string, line: number } }} PlaywrightError */

/**
 * @typedef {object} Suite of Playwright's JSON report: files, and groups in them
 * @property {{ file: string, title: string, tests: { status: string, results: { duration: number, error?: PlaywrightError }[] }[] }[]} [specs]
 * @property {Suite[]} [suites]
 */

/**
 * @param {string} text
 * @returns {ReportedTest[]}
 */
export function testsOfPlaywright(text) {
  /** @type {(suite: Suite) => ReportedTest[]} */
  const testsOf = ({ specs = [], suites = [] }) => [
    ...specs.map(({ file, title, tests }) => {
      const results = tests.flatMap(test => test.results);
      const isFailed = tests.some(({ status }) => status === 'unexpected');
      return {
        name: `${path.basename(file)}: ${title}`,
        ms: results.reduce((sum, { duration }) => sum + duration, 0),
        ...(isFailed ? { error: errorOfPlaywright(results.find(({ error }) => error)?.error) } : {})
      };
    }),
    ...suites.flatMap(testsOf)
  ];
  return testsOf(/** @type {Suite} */ (JSON.parse(text)));
}

/** @param {PlaywrightError | undefined} error */
function errorOfPlaywright({ message, location } = {}) {
  return inOneLine(message, location && `${path.basename(location.file)}:${location.line}`);
}

/**
 * @param {string} text
 * @returns {ReportedTest[]}
 */
export function testsOfJunit(text) {
  return [...text.matchAll(/(<testcase\s[^>]*>)(?:<(?:failure|error)(\s[^>]*|\/)>)?/g)].map(
    ([, tag = '', failure]) => {
      const of = (/** @type {string} */ name, /** @type {string} */ from) =>
        unescapeXml(new RegExp(`\\s${name}="([^"]*)"`).exec(from)?.[1] ?? '');
      return {
        name: `${of('classname', tag).split('.').at(-1)}: ${of('name', tag)}`,
        ms: Number(of('time', tag)) * 1000,
        ...(failure === undefined ? {} : { error: inOneLine(of('message', failure)) })
      };
    }
  );
}

/** @type {Readonly<Record<string, string>>} */
const ENTITIES = { '&lt;': '<', '&gt;': '>', '&quot;': '"', '&apos;': "'", '&amp;': '&', '&#10;': '\n' };

/** @param {string} text */
function unescapeXml(text) {
  return text.replace(/&(?:lt|gt|quot|apos|amp|#10);/g, entity => ENTITIES[entity] ?? entity);
}
