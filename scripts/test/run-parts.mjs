// @ts-check
/**
 * Runs the parts of the tests, side by side as far as two cores carry them: a part that waits for half of its time leaves a core to
 * another one. Downloads of a part run beside earlier parts; parts that set something up themselves wait for that, because
 * one setup runs at a time.
 */
import { formatSeconds } from '../setup/stage-printer.mjs';
import { coreUse } from './core-use.mjs';
import { runPart } from './run-part.mjs';

/** @typedef {import('./parts.mjs').Part} Part */
/** @typedef {import('./run-part.mjs').PartResult} PartResult */
/** @typedef {(text: string) => void} Say */

/** The number of cores that the parts are designed for. More cores make each of them quicker, and memory does not grow with cores. */
const CORES = 2;

/**
 * @param {readonly Part[]} parts
 * @param {AbortSignal} signal
 * @param {Say} print
 * @param {(part: Part, signal: AbortSignal, say: Say) => Promise<PartResult>} [run]
 * @returns {Promise<PartResult[]>} in the order of the parts
 */
export async function runParts(parts, signal, print, run = runPart) {
  /** @type {Map<Part, PartResult>} */
  const results = new Map();
  /** @type {Map<Part, Promise<unknown>>} */
  const preparing = new Map();
  for (const part of parts) {
    // The part itself reports the error: its steps try it again.
    const prepared = part.prepare?.(signal, named(part, print)).catch(() => undefined);
    if (prepared)
      preparing.set(
        part,
        prepared.finally(() => preparing.delete(part))
      );
  }
  const isReady = (/** @type {Part} */ { prepare, setsUp }) => preparing.size === 0 || !(prepare || setsUp);
  /** @type {Map<Part, Promise<void>>} */
  const running = new Map();
  /** @type {unknown[]} */
  const errors = [];
  const waiting = [...parts];

  /** @param {Part} part */
  const begin = async part => {
    print(`\n── ${part.name}: ${part.what}`);
    const busy = coreUse();
    const result = await run(part, signal, named(part, print));
    const { passed, failed, skipped } = result.counts;
    const time = formatSeconds(result.ms);
    print(
      `── ${part.name}: ${passed} passed, ${failed} failed, ${skipped} skipped, ${time}, cores ${busy()} % busy`
    );
    results.set(part, result);
  };

  for (;;) {
    for (;;) {
      const next = errors.length === 0 ? nextPart(waiting.filter(isReady), [...running.keys()]) : null;
      if (!next) break;
      waiting.splice(waiting.indexOf(next), 1);
      const ended = begin(next)
        .catch((/** @type {unknown} */ error) => void errors.push(error))
        .finally(() => running.delete(next));
      running.set(next, ended);
    }
    if (running.size === 0 && preparing.size === 0) break;
    await Promise.race([...running.values(), ...preparing.values()]);
  }
  // Only now: none of them runs any more.
  if (errors.length > 0) throw errors[0];
  return parts.flatMap(part => results.get(part) ?? []);
}

/**
 * The first part that fits beside the running ones; a part that would use more than all cores runs alone.
 *
 * @param {readonly Part[]} waiting
 * @param {readonly Part[]} running
 * @returns {Part | null}
 */
export function nextPart(waiting, running) {
  if (running.length === 0) return waiting[0] ?? null;
  const busy = running.reduce((sum, { load }) => sum + load, 0);
  // Sums of tenths are not exact.
  return waiting.find(({ load }) => busy + load <= CORES + 0.01) ?? null;
}

/**
 * Prefixes each line with its part.
 *
 * @param {Part} part
 * @param {Say} print
 * @returns {Say}
 */
function named({ name }, print) {
  return text => text.split('\n').forEach(line => print(`${name.padEnd(12)} │ ${line}`));
}
