// @ts-check
/**
 * Dia's training step, its input side and a row of its generation, on XLA:CPU and in plain PyTorch, and the progress of the tiny model:
 * the codes of held-out clips, and pronouncing held-out words.
 *
 * A row of generation (nine tokens) compares our static cache with a growing one (transformers' DynamicCache), at row 10, 100
 * and 1,000; a training step compares the recipe with plain transformers. Needs the environment `torch-xla`; about ten
 * minutes, three of them for encoding the corpus. Options: `--corpus FOLDER` stores sound and codes there, `--no-save`. Exit
 * code 1: with the static cache on XLA, row 1,000 takes over 20 % longer than row 10, or there are more than three programs;
 * or training does not halve the cross-entropy of the held-out clips; or fewer than half of the held-out words are recognised.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { printTable, saveResults } from '../measure/results.mjs';
import { torchXla } from '../measure/torch-xla.mjs';

const LIMIT = { growth: 1.2, programs: 3, learnt: 0.5, heard: 0.5 };

const { values } = parseArgs({
  options: { corpus: { type: 'string' }, 'no-save': { type: 'boolean', default: false } }
});
const { machine, measure } = torchXla('dia', ['transformers']);

/** @type {{ steps: Record<string, { step_ms: number, codes_per_s: number, compile_s: number }>, input_batches_per_s: number }} */
const training = measure('training');
printTable(
  'a training step',
  ['ms', 'codes a second', 'compiling, s'],
  Object.entries(training.steps).map(([kind, each]) => [kind, each.step_ms, each.codes_per_s, each.compile_s])
);
console.log(`The input side alone: ${Math.round(training.input_batches_per_s)} batches a second.\n`);

/**
 * @typedef {{ row_ms: Record<string, number>, programs: number, compile_s: number }} Rows
 * @type {{ rows: Record<string, Rows>, beside: Record<string, number> }}
 */
const measured = measure('generation');
const generation = Object.entries(measured.rows).map(
  ([kind, { row_ms: ms, programs, compile_s: seconds }]) => ({
    kind,
    row10Ms: ms['10'] ?? null,
    row100Ms: ms['100'] ?? null,
    row1000Ms: ms['1000'] ?? null,
    programs,
    compileSeconds: seconds
  })
);
printTable(
  'a row, ms',
  ['row 10', 'row 100', 'row 1,000', 'programs', 'compiling, s'],
  generation.map(each => [
    each.kind,
    each.row10Ms,
    each.row100Ms,
    each.row1000Ms,
    each.programs,
    each.compileSeconds
  ])
);

printTable(
  "CPU time of a row beside transformers' generate, ms, and equal tokens",
  [''],
  Object.entries(measured.beside).map(([name, each]) => [name, each])
);

const corpus = values.corpus ?? mkdtempSync(join(tmpdir(), 'dia-corpus-'));
/** @type {{ epochs: { seconds: number, held_out: number }[], channels: { before: number[], after: number[] }, steps: number }} */
const learning = measure('learning', corpus);
if (!values.corpus) rmSync(corpus, { recursive: true });
printTable(
  'cross-entropy of held-out clips',
  ['seconds', 'held out'],
  learning.epochs.map((each, epoch) => [`epoch ${epoch}`, each.seconds, each.held_out])
);
printTable(
  'by channel',
  learning.channels.before.map((_, channel) => String(channel)),
  Object.entries(learning.channels).map(([when, each]) => [when, ...each])
);

/**
 * @typedef {{ heard: number, own_texts: number[], others_texts: number[] }} Spoken
 * @type {{ before: Spoken, after: Spoken, cpu_seconds: number, heard_in_the_clips: number, heard_in_other_words: number }}
 */
const words = measure('words');
const percent = (/** @type {number} */ share) => `${Math.round(100 * share)} %`;
console.log(
  `Held-out words that a recogniser hears: ${percent(words.before.heard)} before, ${percent(words.after.heard)} after ` +
    `${Math.round(words.cpu_seconds)} s of CPU time; ${percent(words.heard_in_the_clips)} in the clips themselves, ` +
    `${percent(words.heard_in_other_words)} in clips of other words.\n`
);
printTable(
  'by channel, after',
  words.after.own_texts.map((_, channel) => String(channel)),
  [
    ['own texts', ...words.after.own_texts],
    ["others' texts", ...words.after.others_texts]
  ]
);

if (!values['no-save'])
  await saveResults('dia', machine, { training, generation, beside: measured.beside, learning, words }, {});
const [ours, first, last] = [generation[0], learning.epochs[0], learning.epochs.at(-1)];
if (
  !ours?.row10Ms ||
  !ours.row1000Ms ||
  ours.row1000Ms > LIMIT.growth * ours.row10Ms ||
  ours.programs > LIMIT.programs ||
  !first ||
  !last ||
  last.held_out > LIMIT.learnt * first.held_out ||
  words.after.heard < LIMIT.heard
) {
  process.exitCode = 1;
}
