// @ts-check
/**
 * The two updates of GPT-SoVITS on XLA:CPU and eagerly in plain PyTorch, and tokens a second of its first stage with a static and
 * with a growing cache.
 *
 * Needs the environment `torch-xla`; about two minutes. Option: `--no-save`. Exit code 1: more than three
 * programs for a step or for all tokens.
 */
import { parseArgs } from 'node:util';
import { printTable, saveResults } from '../measure/results.mjs';
import { torchXla } from '../measure/torch-xla.mjs';

/** The step's two programs and the program of the batch's transfer; the text, a token, and their common start. */
const LIMIT = { programsOfStep: 3, programsOfTokens: 3 };

const { values } = parseArgs({ options: { 'no-save': { type: 'boolean', default: false } } });
const { machine, measure } = torchXla('gpt-sovits');

/** @type {Record<string, { step_ms: number, programs: number, compile_s: number }>} */
const training = measure('training');
printTable(
  'both updates of a batch',
  ['ms', 'programs', 'compiling, s'],
  Object.entries(training).map(([kind, each]) => [kind, each.step_ms, each.programs, each.compile_s])
);
/** @type {Record<string, { tokens_per_s: number, programs: number, compile_s: number }>} */
const firstStage = measure('first_stage');
printTable(
  'the first stage',
  ['tokens a second', 'programs', 'compiling, s'],
  Object.entries(firstStage).map(([kind, each]) => [kind, each.tokens_per_s, each.programs, each.compile_s])
);

if (!values['no-save']) await saveResults('gpt-sovits', machine, { training, firstStage }, {});
const [step, tokens] = [Object.values(training)[0], Object.values(firstStage)[0]];
if (!step || !tokens || step.programs > LIMIT.programsOfStep || tokens.programs > LIMIT.programsOfTokens) {
  process.exitCode = 1;
}
