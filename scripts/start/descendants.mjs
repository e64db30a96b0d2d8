// @ts-check
/**
 * Finds and ends all processes of a start. Keepers and kernels leave the process tree on purpose. All but
 * keepers inherit one environment variable, which no other process of a person has; a keeper gets a bare environment,
 * and is found as the gateway's child or as the parent of its kernel.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { listProcesses } from './process-list.mjs';

export const MARK = 'TPULAB_START_MARK';

const KEEPER = /\bkeeper\/main\.js\b/;
const POLL_MS = 100;
/** Time until killed processes have ended: a busy machine ends them late, and a process left then is not left for good. */
const KILLED_WAIT_MS = 30_000;

export class Descendants {
  #mark;
  /** @type {Map<number, string>} pid to start of all that were ever seen */
  #seen = new Map();

  /** @param {string} mark */
  constructor(mark) {
    this.#mark = mark;
  }

  /**
   * The running ones. A process seen once is followed, even when it has lost its relatives since.
   *
   * @returns {Promise<number[]>} pids
   */
  async refresh() {
    const all = await listProcesses(`${MARK}=${this.#mark}`);
    const marked = all.filter(one => one.marked);
    const ours = new Set(marked.map(one => one.pid));
    const parents = new Set(marked.map(one => one.parent));
    for (const one of all) {
      const keeper = KEEPER.test(one.command) && (parents.has(one.pid) || ours.has(one.parent));
      if (one.pid !== process.pid && (one.marked || keeper)) this.#seen.set(one.pid, one.start);
    }
    return all.filter(one => this.#seen.get(one.pid) === one.start).map(one => one.pid);
  }

  /**
   * Ends the remaining ones: sends a request, waits, kills.
   *
   * @param {number} waitMs between the request and the kill
   * @returns {Promise<number>} the number of ended processes
   */
  async end(waitMs) {
    const found = await this.refresh();
    if (found.length === 0) return 0;
    signalAll(found, 'SIGTERM');
    if (!(await this.allEnded(waitMs))) {
      signalAll(await this.refresh(), 'SIGKILL');
      await this.allEnded(KILLED_WAIT_MS);
    }
    return found.length;
  }

  /**
   * @param {number} waitMs
   * @returns {Promise<boolean>}
   */
  async allEnded(waitMs) {
    const end = performance.now() + waitMs;
    while ((await this.refresh()).length > 0) {
      if (performance.now() > end) return false;
      await delay(POLL_MS);
    }
    return true;
  }
}

/**
 * @param {readonly number[]} pids
 * @param {NodeJS.Signals} name
 */
function signalAll(pids, name) {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {
      // It has already ended.
    }
  }
}
