// @ts-check
/** Sets up what is missing, runs the parts in order, goes on after a failing one, and sums up. */
import { parseArgs } from 'node:util';
import { setUp, TEST_STAGES } from '../setup/set-up.mjs';
import { SetupProblem } from '../setup/setup-problem.mjs';
import { formatSeconds } from '../setup/stage-printer.mjs';
import { add, NONE } from './counts.mjs';
import { PARTS } from './parts.mjs';
import { runParts } from './run-parts.mjs';

const HELP = `npm test [-- NAME…]

Sets up what is missing, then runs all parts of the tests, or those named, quick ones first.
It goes on after a failing part; the last lines sum up.

  --list    name the parts
  --help    this text

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
  const say = (/** @type {string} */ line) => process.stdout.write(`${line}\n`);
  const { values, positionals } = parse(argv);
  if (values.help || values.list) {
    say(values.help ? HELP : list());
    return 0;
  }
  const unknown = positionals.filter(name => !PARTS.some(part => part.name === name));
  if (unknown.length > 0) {
    throw new SetupProblem(
      'bad-option',
      `There is no part named ${unknown.join(', ')}; \`npm test -- --list\` names them.`
    );
  }
  const chosen = PARTS.filter(part =>
    positionals.length === 0 ? !part.leftOut?.() : positionals.includes(part.name)
  );
  await setUp({ stages: TEST_STAGES, signal });

  const results = await runParts(chosen, signal, say);
  for (const part of positionals.length === 0 ? PARTS : []) {
    const why = part.leftOut?.();
    if (why) say(`\n── ${part.name} was left out: ${why}`);
  }
  return sumUp(results, say);
}

/**
 * @param {readonly import('./run-part.mjs').PartResult[]} results
 * @param {(line: string) => void} say
 */
export function sumUp(results, say) {
  say('\nSummary');
  for (const { name, counts, ms, problems } of results) {
    const mark = counts.failed === 0 ? '✓' : '✗';
    const numbers = [counts.passed, counts.failed, counts.skipped]
      .map(count => String(count).padStart(6))
      .join('');
    say(`  ${mark} ${name.padEnd(14)}${formatSeconds(ms).padStart(12)}${numbers}`);
    for (const problem of problems) say(`      ${problem}`);
  }
  const all = results.map(result => result.counts).reduce(add, NONE);
  // The very last line, alone: programs read it.
  say(`\n${all.passed} passed, ${all.failed} failed${all.skipped === 0 ? '' : `, ${all.skipped} skipped`}`);
  return all.failed === 0 && all.passed > 0 ? 0 : 1;
}

/** @param {readonly string[]} argv */
function parse(argv) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: { list: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } }
    });
  } catch (error) {
    const what = error instanceof Error ? error.message.split('. ')[0] : String(error);
    throw new SetupProblem('bad-option', `${what}; \`npm test -- --help\` lists the options.`, {
      cause: error
    });
  }
}
