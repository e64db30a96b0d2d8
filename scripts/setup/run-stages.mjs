// @ts-check
/** Runs the stages of the setup in order, two at a time where one does not need the other's result. */
import { Interrupted } from './setup-problem.mjs';

/** @typedef {import('./stage.mjs').Stage} Stage */

/** npm and uv each keep a core busy while they unpack. */
const MAX_CONCURRENT = 2;

/**
 * When a stage fails, the stages beside it are ended, and no more are started.
 *
 * @param {readonly Stage[]} stages
 * @param {AbortSignal} signal
 * @param {(stage: Stage, signal: AbortSignal) => Promise<'made' | 'kept'>} run
 * @returns {Promise<number>} how many were made
 */
export async function runStages(stages, signal, run) {
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const waiting = [...stages];
  /** @type {Map<Stage, Promise<void>>} */
  const running = new Map();
  /** @type {unknown[]} */
  const errors = [];
  let made = 0;

  /** @param {Stage} stage */
  const mayBegin = stage => {
    const unfinished = [...running.keys(), ...waiting];
    const { after } = stage;
    if (after === undefined) return unfinished[0] === stage;
    return !unfinished.some(other => after.includes(other.id));
  };
  /** @param {Stage} stage */
  const begin = async stage => {
    try {
      if ((await run(stage, either)) === 'made') made += 1;
    } catch (error) {
      errors.push(error);
      failed.abort();
    } finally {
      running.delete(stage);
    }
  };

  for (;;) {
    while (running.size < MAX_CONCURRENT && !either.aborted) {
      const next = waiting.find(mayBegin);
      if (!next) break;
      waiting.splice(waiting.indexOf(next), 1);
      running.set(next, begin(next));
    }
    if (running.size === 0) break;
    await Promise.race(running.values());
  }
  if (errors.length > 0) throw errors[0];
  if (waiting.length > 0) throw new Interrupted();
  return made;
}
