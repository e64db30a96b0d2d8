// @ts-check
/**
 * The English voice: its training step beside the same network in plain torch, its input side, the cost of profiler and memory
 * manager, and how well held-out sentences are recognised while it learns.
 *
 * Needs the environment `torch-xla`; about ten minutes and 3 GB of disk. Option `--no-save`. Exit code 1: profiler or memory manager
 * take over 1 % of a step, fewer than 70 % of the held-out words are recognised, a stop token is more than three frames from the
 * end, or 24 hours of sound need more than five minutes of two cores to be prepared.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { printTable, saveResults } from '../measure/results.mjs';
import { torchXla } from '../measure/torch-xla.mjs';

const LIMIT = { overheadPercent: 1, words: 0.7, stopFrames: 3, preparationProcessorS: 600 };

const { values } = parseArgs({ options: { 'no-save': { type: 'boolean', default: false } } });
const { machine, measure } = torchXla('english-tts');
const folder = mkdtempSync(join(tmpdir(), 'english-tts-'));

/** @type {{ steps: Record<string, number>, input: number, overhead: Record<string, number> }} */
const training = measure('measure', 'training', join(folder, 'training'));
printTable('a training step', ['ms'], Object.entries(training.steps));
console.log(`The input side alone: ${Math.round(training.input)} utterances a second.\n`);
printTable('cost, percent of a step', ['%'], Object.entries(training.overhead));

/** @type {{ rows: { epoch: number, wall_s: number, processor_s: number, words: number, val: number }[], stop_frames: number[], stopped: boolean }} */
const learning = measure('measure', 'learning', join(folder, 'learning'));
/** @type {{ clips: number, hours: number, wall_s: number, processor_s: number }} */
const preparation = measure('measure', 'preparation', join(folder, 'preparation'));
printTable(
  'preparation',
  ['clips', 'hours', 's', 'processor, s'],
  [['all of it', ...Object.values(preparation)]]
);
rmSync(folder, { recursive: true });
printTable(
  'held-out sentences',
  ['seconds', 'processor, s', 'words recognised', 'validation loss'],
  learning.rows.map(each => [
    `epoch ${each.epoch}`,
    each.wall_s,
    each.processor_s,
    `${Math.round(100 * each.words)} %`,
    each.val
  ])
);
console.log(`Stop tokens: ${learning.stop_frames.join(' to ')} frames after the last phoneme.`);

if (!values['no-save']) await saveResults('english-tts', machine, { training, learning, preparation }, {});
if (
  Math.max(...Object.values(training.overhead)) > LIMIT.overheadPercent ||
  (learning.rows.at(-1)?.words ?? 0) < LIMIT.words ||
  !learning.stopped ||
  preparation.processor_s > LIMIT.preparationProcessorS ||
  Math.max(...learning.stop_frames.map(Math.abs)) > LIMIT.stopFrames
) {
  process.exitCode = 1;
}
