// @ts-check
/**
 * Finds and ends everything that a start has started. Keepers and kernels leave the process tree on purpose, but
 * all inherit one environment variable; a person's other processes never have its value.
 */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

export const MARK = 'TPULAB_START_MARK';

const LOOK_AGAIN_MS = 100;
const run = promisify(execFile);

/**
 * @param {string} mark
 * @returns {Promise<number[]>} processes that have the mark, this one excepted
 */
export async function marked(mark) {
  const wanted = `${MARK}=${mark}`;
  const pids = process.platform === 'linux' ? await markedOnLinux(wanted) : await markedByPs(wanted);
  return pids.filter(pid => pid !== process.pid);
}

/**
 * Ends those that are left: asks, waits, kills.
 *
 * @param {string} mark
 * @param {number} waitMs between asking and killing
 * @returns {Promise<number>} how many there were
 */
export async function endMarked(mark, waitMs) {
  const found = await marked(mark);
  if (found.length === 0) return 0;
  signalAll(found, 'SIGTERM');
  if (!(await allEnded(mark, waitMs))) {
    signalAll(await marked(mark), 'SIGKILL');
    await allEnded(mark, waitMs);
  }
  return found.length;
}

/**
 * @param {string} mark
 * @param {number} waitMs
 * @returns {Promise<boolean>}
 */
export async function allEnded(mark, waitMs) {
  const end = performance.now() + waitMs;
  while ((await marked(mark)).length > 0) {
    if (performance.now() > end) return false;
    await delay(LOOK_AGAIN_MS);
  }
  return true;
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
      // It has ended by itself.
    }
  }
}

/** @param {string} wanted */
async function markedOnLinux(wanted) {
  const pids = (await readdir('/proc')).filter(name => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.map(async pid => {
      try {
        const environ = await readFile(`/proc/${pid}/environ`, 'utf8');
        return environ.split('\0').includes(wanted) && (await isRunning(pid)) ? pid : null;
      } catch {
        // It has ended, or is another user's.
        return null;
      }
    })
  );
  return found.filter(pid => pid !== null);
}

/**
 * A zombie has ended; its parent has not noticed yet.
 *
 * @param {number} pid
 */
async function isRunning(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z';
}

/** @param {string} wanted */
async function markedByPs(wanted) {
  const { stdout } = await run('ps', ['-axww', '-E', '-o', 'pid=,stat=,command='], {
    maxBuffer: 64 * 1024 * 1024
  });
  return stdout
    .split('\n')
    .filter(line => line.split(/\s+/).includes(wanted) && !/^\s*\d+\s+Z/.test(line))
    .map(line => Number.parseInt(line, 10));
}
