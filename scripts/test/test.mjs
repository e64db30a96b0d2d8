// @ts-check
/** Sets up what is missing, runs the parts in order, continues after a failing one, and sums up. */
import { parseArgs } from 'node:util';
import { checkout } from '../setup/checkout.mjs';
import { setUp, TEST_STAGES } from '../setup/set-up.mjs';
import { SetupProblem } from '../setup/setup-problem.mjs';
import { formatSeconds } from '../setup/stage-printer.mjs';
import { explainSpent, spentOf } from './budgets.mjs';
import { changesSinceMain, selectByChanges } from './changed.mjs';
import { add, NONE } from './counts.mjs';
import { PARTS } from './parts.mjs';
import { slowestTests } from './reported-tests.mjs';
import { runPart } from './run-part.mjs';
import { runParts } from './run-parts.mjs';

const SLOWEST = 20;

const HELP = `npm test [-- NAME…]

Sets up what is missing, then runs all parts of the tests, or those named, in parallel as far as two cores allow.
It continues after a failing part and ends with a summary. After all parts, each is shown with its share of the total time
and its budget; a part far above its budget fails.

  --changed  only the parts and tests that changes since main may affect: for Vitest, the specs that import a changed file;
             for other parts, the changed test files if nothing else of the part has changed
  --slowest  run nothing; print the twenty slowest tests of the last run
  --list     name the parts
  --help     this text

Parts
${list()}`;

function list() {
  return PARTS.map(part => `  ${part.name.padEnd(12)}  ${part.what}`).join('\n');
}

/**
 * @param {AbortSignal} signal
 * @param {readonly string[]} argv
 * @returns {Promise<number>} exit code
 */
export async function test(signal, argv) {
  const print = (/** @type {string} */ line) => process.stdout.write(`${line}\n`);
  const { values, positionals } = parse(argv);
  if (values.help || values.list) {
    print(values.help ? HELP : list());
    return 0;
  }
  if (values.slowest) return printSlowest(print);
  const unknown = positionals.filter(name => !PARTS.some(part => part.name === name));
  if (unknown.length > 0) {
    throw new SetupProblem(
      'bad-option',
      `There is no part named ${unknown.join(', ')}; \`npm test -- --list\` names them.`
    );
  }
  const selected = values.changed ? selectionSinceMain(print) : null;
  const chosen = PARTS.filter(part =>
    positionals.length === 0 ? !part.leftOut?.() : positionals.includes(part.name)
  ).filter(({ name }) => selected?.has(name) ?? true);
  await setUp({ stages: TEST_STAGES, signal });

  const results = await runParts(chosen, signal, print, (part, partSignal, printOfPart) =>
    runPart(part, partSignal, printOfPart, selected?.get(part.name))
  );
  const isWhole = positionals.length === 0 && selected === null;
  for (const part of isWhole ? PARTS : []) {
    const why = part.leftOut?.();
    if (why) print(`\n── ${part.name} was left out: ${why}`);
  }
  return printSummary(results, print, isWhole ? chosen : []);
}

/** @param {(line: string) => void} print */
function selectionSinceMain(print) {
  const { since, files } = changesSinceMain(checkout.root);
  const selected = selectByChanges(files, since);
  print(`${files.length} ${files.length === 1 ? 'file has' : 'files have'} changed since main`);
  for (const [part, { files: tests }] of selected) {
    print(`  ${part.padEnd(12)}  ${tests.length === 0 ? 'all affected tests' : tests.join(', ')}`);
  }
  return selected;
}

/** @param {(line: string) => void} print */
async function printSlowest(print) {
  const tests = await slowestTests(checkout.reports, SLOWEST);
  if (tests.length === 0) print('Nothing has run here yet; `npm test` writes the reports that this reads.');
  for (const { name, ms, report } of tests) {
    print(`${formatSeconds(ms).padStart(12)}  ${report.padEnd(16)}  ${name}`);
  }
  return tests.length === 0 ? 1 : 0;
}

/**
 * @param {readonly import('./run-part.mjs').PartResult[]} results
 * @param {(line: string) => void} print
 * @param {readonly Pick<import('./parts.mjs').Part, 'name' | 'share'>[]} budgeted all parts; none: only some have run, and
 *   budgets, which are shares of the whole, mean nothing
 */
function printSummary(results, print, budgeted) {
  print('\nSummary');
  const spent = spentOf(results, budgeted);
  // Where tests have failed, the time of a part means nothing for the others.
  const allPassed = results.every(({ counts }) => counts.failed === 0);
  let tooLong = 0;
  for (const { name, counts, ms, problems, failures } of results) {
    const own = budgeted.length === 0 ? undefined : spent.get(name);
    const isTooLong = allPassed && own?.verdict === 'far above';
    if (isTooLong) tooLong += 1;
    const mark = counts.failed === 0 && !isTooLong ? '✓' : '✗';
    const numbers = [counts.passed, counts.failed, counts.skipped]
      .map(count => String(count).padStart(6))
      .join('');
    const budget = own
      ? `   ${Math.round(own.share)} % of the whole, budget ${Math.round(own.budget)} %`
      : '';
    print(`  ${mark} ${name.padEnd(14)}${formatSeconds(ms).padStart(12)}${numbers}${budget}`);
    const over = own ? explainSpent(own) : null;
    if (over !== null) print(`      ${over}`);
    for (const line of [...problems, ...failures]) print(`      ${line}`);
  }
  // A part far above its budget is a failure too, and is counted as one.
  const all = results.map(result => result.counts).reduce(add, { ...NONE, failed: tooLong });
  // The very last line, alone: programs read it.
  print(`\n${all.passed} passed, ${all.failed} failed${all.skipped === 0 ? '' : `, ${all.skipped} skipped`}`);
  return all.failed === 0 && all.passed > 0 ? 0 : 1;
}

/** @param {readonly string[]} argv */
function parse(argv) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        changed: { type: 'boolean', default: false },
        slowest: { type: 'boolean', default: false },
        list: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false }
      }
    });
  } catch (error) {
    const what = error instanceof Error ? error.message.split('. ')[0] : String(error);
    throw new SetupProblem('bad-option', `${what}; \`npm test -- --help\` lists the options.`, {
      cause: error
    });
  }
}
