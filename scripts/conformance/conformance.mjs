// @ts-check
/** Sets up what is missing, runs the suites in order, continues after a failing one, and prints one table. */
import { parseArgs } from 'node:util';
import { setUp, START_STAGES } from '../setup/set-up.mjs';
import { SetupProblem } from '../setup/setup-problem.mjs';
import { formatSeconds } from '../setup/stage-printer.mjs';
import { runPart } from '../test/run-part.mjs';
import { conformanceEnvironment } from './environment.mjs';
import { SUITES } from './suites.mjs';

const HELP = `npm run conformance [-- NAME…]

Sets up what is missing, then runs third-party test suites and clients against the bridge (all, or those named).
It continues after a failing suite; the table at the end shows the tests passed, failed and excluded.

  --short   only the suites that take a minute or two
  --as-is   no setup: use the existing environments
  --list    name the suites
  --help    this text

Suites
${list()}`;

function list() {
  return SUITES.map(suite => `  ${suite.name.padEnd(16)}${suite.what}`).join('\n');
}

/**
 * @typedef {object} Row
 * @property {string} name
 * @property {import('../test/counts.mjs').Counts} counts
 * @property {number | null} excluded null: the run ended before it could report it
 * @property {number} ms
 * @property {readonly string[]} problems
 */

/**
 * @param {AbortSignal} signal
 * @param {readonly string[]} argv
 * @returns {Promise<number>} exit code
 */
export async function conformance(signal, argv) {
  const print = (/** @type {string} */ line) => process.stdout.write(`${line}\n`);
  const { values, positionals } = parse(argv);
  if (values.help || values.list) {
    print(values.help ? HELP : list());
    return 0;
  }
  const unknown = positionals.filter(name => !SUITES.some(suite => suite.name === name));
  if (unknown.length > 0) {
    throw new SetupProblem(
      'bad-option',
      `There is no suite named ${unknown.join(', ')}; \`npm run conformance -- --list\` names them.`
    );
  }
  const chosen = SUITES.filter(
    suite => (positionals.length === 0 || positionals.includes(suite.name)) && (!values.short || suite.short)
  );
  if (!values['as-is']) await setUp({ stages: [...START_STAGES, conformanceEnvironment], signal });
  /** @type {Row[]} */
  const rows = [];
  for (const suite of chosen) {
    print(`\n── ${suite.name}: ${suite.what}`);
    const part = { ...suite, steps: async () => [await suite.step(signal, print)] };
    const result = await runPart(part, signal, print);
    rows.push({ ...result, excluded: await suite.excluded().catch(() => null) });
  }
  print(table(rows));
  return rows.every(isGood) ? 0 : 1;
}

/**
 * A test that skips itself counts against the suite, unless the suite lists it as excluded.
 *
 * @param {Row} row
 */
function isGood({ counts, excluded }) {
  return counts.passed > 0 && counts.failed === 0 && excluded !== null && counts.skipped <= excluded;
}

/**
 * @param {readonly Row[]} rows
 * @returns {string}
 */
export function table(rows) {
  const lines = [`\n    ${'suite'.padEnd(16)}${['passed', 'failed', 'excluded', 'time'].map(cell).join('')}`];
  for (const row of rows) {
    const { passed, failed, skipped } = row.counts;
    const unexplained = Math.max(0, skipped - (row.excluded ?? 0));
    const numbers = [passed, failed + unexplained, row.excluded ?? '?', formatSeconds(row.ms)];
    lines.push(`  ${isGood(row) ? '✓' : '✗'} ${row.name.padEnd(16)}${numbers.map(cell).join('')}`);
    for (const problem of row.problems) lines.push(`      ${problem}`);
    if (unexplained > 0) lines.push(`      ${unexplained} skipped without having been excluded`);
  }
  return lines.join('\n');
}

/** @param {string | number} value */
function cell(value) {
  return String(value).padStart(12);
}

/** @param {readonly string[]} argv */
function parse(argv) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        short: { type: 'boolean', default: false },
        'as-is': { type: 'boolean', default: false },
        list: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false }
      }
    });
  } catch (error) {
    const what = error instanceof Error ? error.message.split('. ')[0] : String(error);
    throw new SetupProblem('bad-option', `${what}; \`npm run conformance -- --help\` lists the options.`, {
      cause: error
    });
  }
}
