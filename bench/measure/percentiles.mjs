// @ts-check
/** Percentiles of measured durations. */

/**
 * Nearest-rank percentile: the smallest sample that at least `percent` of all samples do not exceed.
 * @param {readonly number[]} samples at least one
 * @param {number} percent above 0, up to 100
 */
export function percentile(samples, percent) {
  if (samples.length === 0) throw new RangeError('A percentile needs at least one sample.');
  const sorted = [...samples].sort((a, b) => a - b);
  const rank = Math.max(1, Math.ceil((percent / 100) * sorted.length));
  return /** @type {number} */ (sorted[rank - 1]);
}

/** @param {readonly number[]} samples milliseconds */
export function summarize(samples) {
  return {
    samples: samples.length,
    p50Ms: round(percentile(samples, 50)),
    p90Ms: round(percentile(samples, 90)),
    p99Ms: round(percentile(samples, 99)),
    minMs: round(Math.min(...samples)),
    maxMs: round(Math.max(...samples))
  };
}

/** @param {number} ms */
function round(ms) {
  return Math.round(ms * 1000) / 1000;
}
