// @ts-check
/**
 * Runs the parts of the tests in order. Neighbours that wait more than they reckon run together, and what a later part has to
 * fetch is fetched while an earlier one reckons.
 */
import { formatSeconds } from '../setup/stage-printer.mjs';
import { runPart } from './run-part.mjs';

/** @typedef {import('./parts.mjs').Part} Part */
/** @typedef {import('./run-part.mjs').PartResult} PartResult */
/** @typedef {(text: string) => void} Say */

/**
 * @param {readonly Part[]} parts
 * @param {AbortSignal} signal
 * @param {Say} say
 * @param {typeof runPart} [run]
 * @returns {Promise<PartResult[]>}
 */
export async function runParts(parts, signal, say, run = runPart) {
  /** @type {PartResult[]} */
  const results = [];
  /** @type {Map<Part, Promise<unknown>>} */
  const preparing = new Map();
  for (const group of groupsOf(parts)) {
    for (const later of parts.filter(({ prepareBeside }) =>
      group.some(({ name }) => name === prepareBeside)
    )) {
      // What went wrong is told by the part itself, whose steps try it again.
      const prepared = later.prepare?.(signal, named(later, say)).catch(() => undefined);
      if (prepared) preparing.set(later, prepared);
    }
    say('');
    const ended = await Promise.allSettled(
      group.map(async part => {
        say(`── ${part.name}: ${part.what}`);
        await preparing.get(part);
        const result = await run(part, signal, group.length === 1 ? say : named(part, say));
        const { passed, failed, skipped } = result.counts;
        const time = formatSeconds(result.ms);
        say(`── ${part.name}: ${passed} passed, ${failed} failed, ${skipped} skipped, ${time}`);
        return result;
      })
    );
    // Only now: none of them runs any more.
    for (const one of ended) {
      if (one.status === 'rejected') throw one.reason;
      results.push(one.value);
    }
  }
  await Promise.all(preparing.values());
  return results;
}

/**
 * @param {readonly Part[]} parts
 * @returns {Part[][]}
 */
export function groupsOf(parts) {
  /** @type {Part[][]} */
  const groups = [];
  for (const part of parts) {
    const last = groups.at(-1);
    if (part.waits && last?.[0]?.waits) last.push(part);
    else groups.push([part]);
  }
  return groups;
}

/**
 * Says of whom a line is.
 *
 * @param {Part} part
 * @param {Say} say
 * @returns {Say}
 */
function named({ name }, say) {
  return text => text.split('\n').forEach(line => say(`${name.padEnd(12)} │ ${line}`));
}
