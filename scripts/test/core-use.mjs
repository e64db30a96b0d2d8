// @ts-check
/** How busy the cores of this machine are, whatever keeps them busy: another part could use the idle time. */
import os from 'node:os';

/** @typedef {{ busy: number, all: number }} Spent milliseconds of all cores together */

/**
 * Starts to measure.
 *
 * @param {() => Spent} [measure]
 * @returns {() => number} percent since then; 0 where no time has passed
 */
export function coreUse(measure = spentSinceBoot) {
  const before = measure();
  return () => {
    const now = measure();
    const all = now.all - before.all;
    return all > 0 ? Math.round((100 * (now.busy - before.busy)) / all) : 0;
  };
}

function spentSinceBoot() {
  const spent = { busy: 0, all: 0 };
  for (const { times } of os.cpus()) {
    const busy = times.user + times.nice + times.sys + times.irq;
    spent.busy += busy;
    spent.all += busy + times.idle;
  }
  return spent;
}
