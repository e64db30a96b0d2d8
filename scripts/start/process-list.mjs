// @ts-check
/** All visible processes, with the data that identifies their owner. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/**
 * @typedef {object} Process
 * @property {number} pid
 * @property {number} parent
 * @property {string} start the same text for the life of the process: pids are reused
 * @property {string} command with its arguments
 * @property {boolean} marked whether `NAME=VALUE` is in its environment
 */

const run = promisify(execFile);

/**
 * Processes that have ended and only wait for their parent to notice are left out.
 *
 * @param {string} variable `NAME=VALUE`
 * @returns {Promise<Process[]>}
 */
export function listProcesses(variable) {
  return process.platform === 'linux' ? listFromProc(variable) : listFromPs(variable);
}

/** @param {string} variable */
async function listFromProc(variable) {
  const pids = (await readdir('/proc')).filter(name => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(pids.map(pid => readProc(pid, variable)));
  return found.filter(entry => entry !== null);
}

/**
 * @param {number} pid
 * @param {string} variable
 * @returns {Promise<Process | null>}
 */
async function readProc(pid, variable) {
  try {
    const [stat, command, environ] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8'),
      readFile(`/proc/${pid}/cmdline`, 'utf8'),
      // The data of another user's process cannot be read.
      readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
    ]);
    // The name in brackets may itself contain brackets and spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return null;
    return {
      pid,
      parent: Number(fields[1]),
      start: fields[19] ?? '',
      command: command.split('\0').join(' '),
      marked: environ.split('\0').includes(variable)
    };
  } catch {
    // It has ended meanwhile.
    return null;
  }
}

/** @param {string} variable */
async function listFromPs(variable) {
  const columns = 'pid=,ppid=,stat=,lstart=,command=';
  const { stdout } = await run('ps', ['-axww', '-E', '-o', columns], {
    maxBuffer: 64 * 1024 * 1024,
    env: { ...process.env, LC_ALL: 'C' }
  });
  return stdout.split('\n').flatMap(line => {
    const found = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(\w+\s+\w+\s+\d+\s+[\d:]+\s+\d+)\s+(.*)$/.exec(line);
    if (!found) return [];
    const [, pid, parent, stat = '', start = '', command = ''] = found;
    if (stat.startsWith('Z')) return [];
    // With -E the environment follows the arguments.
    const marked = command.split(/\s+/).includes(variable);
    return [{ pid: Number(pid), parent: Number(parent), start, command, marked }];
  });
}
