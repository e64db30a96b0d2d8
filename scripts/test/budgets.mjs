// @ts-check
/**
 * The budget of a part: a share of the time of all parts together, because machines differ in speed and a slower one makes all
 * parts longer. A part that has grown is named before the whole run is too long.
 */

/**
 * A part is named when it is this much above its share, and fails when it is far above: parallel parts and the network
 * sometimes make it longer.
 */
const NAMED = { factor: 1.25, points: 1 };
const FAILED = { factor: 2, points: 3 };

/**
 * @typedef {object} Spent
 * @property {number} share the part's percentage of the whole
 * @property {number} budget its allowed percentage of the whole
 * @property {'within' | 'above' | 'far above'} verdict
 */

/**
 * Only for a run of all parts: the share of a few means nothing.
 *
 * @param {readonly Pick<import('./run-part.mjs').PartResult, 'name' | 'ms'>[]} results
 * @param {readonly Pick<import('./parts.mjs').Part, 'name' | 'share'>[]} parts the parts that ran
 * @returns {Map<string, Spent>} by the name of the part
 */
export function spentOf(results, parts) {
  const all = results.reduce((sum, { ms }) => sum + ms, 0);
  const allShares = parts.reduce((sum, part) => sum + part.share, 0);
  return new Map(
    results.map(({ name, ms }) => {
      const own = parts.find(part => part.name === name)?.share ?? 0;
      const share = (100 * ms) / all;
      const budget = (100 * own) / allShares;
      return [name, { share, budget, verdict: verdictOf(share, budget) }];
    })
  );
}

/**
 * @param {number} share
 * @param {number} budget
 * @returns {Spent['verdict']}
 */
function verdictOf(share, budget) {
  const isAbove = (/** @type {typeof NAMED} */ { factor, points }) => share > budget * factor + points;
  if (isAbove(FAILED)) return 'far above';
  return isAbove(NAMED) ? 'above' : 'within';
}

/**
 * @param {Spent} spent
 * @returns {string | null} the message; null: it is within its budget
 */
export function explainSpent({ share, budget, verdict }) {
  if (verdict === 'within') return null;
  return (
    `${verdict} its budget: ${Math.round(share)} % of the whole instead of ${Math.round(budget)} %; ` +
    '`npm test -- --slowest` names its slowest tests'
  );
}
