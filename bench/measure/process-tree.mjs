// @ts-check
/** The cost of a server: CPU time and memory of its processes, without the kernels themselves. Linux only: /proc. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** Clock ticks of /proc are a hundredth of a second on every Linux that Node runs on. */
const MS_PER_TICK = 10;
const KERNEL = /tpulab\.launcher|ipykernel|light_kernel\.py/;

/**
 * @typedef {object} ProcessSample
 * @property {number} pid
 * @property {'server' | 'keeper'} role
 * @property {number} cpuMs since its start
 * @property {number} rssMb
 * @property {number} pssMb with its proportional share of shared memory
 * @property {number} peakMb since `forgetPeaks`
 */

/**
 * @param {number | null} root
 * @returns {ProcessSample[]} the root first; empty without /proc
 */
export function sampleTree(root) {
  if (root === null || process.platform !== 'linux') return [];
  const children = childrenByParent();
  const samples = [];
  const queue = [root];
  for (let pid = queue.shift(); pid !== undefined; pid = queue.shift()) {
    const command = read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ');
    if (KERNEL.test(command)) continue;
    const sample = sampleOf(pid, command);
    if (sample) samples.push(sample);
    queue.push(...(children.get(pid) ?? []));
  }
  return samples;
}

/** Restarts `peakMb`. @param {readonly ProcessSample[]} samples */
export function forgetPeaks(samples) {
  for (const { pid } of samples) {
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, '5');
    } catch {
      // Not allowed everywhere; the peak then covers the whole life of the process, so it can only be too high.
    }
  }
}

/**
 * CPU time between two samples; a new process counts in full.
 * @param {readonly ProcessSample[]} before
 * @param {readonly ProcessSample[]} after
 */
export function cpuMsBetween(before, after) {
  const earlier = new Map(before.map(({ pid, cpuMs }) => [pid, cpuMs]));
  return after.reduce((sum, { pid, cpuMs }) => sum + cpuMs - (earlier.get(pid) ?? 0), 0);
}

/**
 * @param {readonly ProcessSample[]} samples
 * @param {'rssMb' | 'pssMb' | 'peakMb'} field
 * @param {'server' | 'keeper'} [role]
 */
export function total(samples, field, role) {
  const counted = role === undefined ? samples : samples.filter(sample => sample.role === role);
  return Math.round(counted.reduce((sum, sample) => sum + sample[field], 0) * 10) / 10;
}

function childrenByParent() {
  /** @type {Map<number, number[]>} */
  const children = new Map();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const parent = Number(statOf(name)?.[1] ?? -1);
    children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  return children;
}

/**
 * The fields after the program's name, which may contain any character.
 * @param {number | string} pid
 */
function statOf(pid) {
  const text = read(`/proc/${pid}/stat`);
  return text === '' ? null : text.slice(text.lastIndexOf(')') + 2).split(' ');
}

/**
 * @param {number} pid
 * @param {string} command
 * @returns {ProcessSample | null}
 */
function sampleOf(pid, command) {
  const stat = statOf(pid);
  const status = read(`/proc/${pid}/status`);
  if (!stat || status === '') return null;
  const mb = (/** @type {string} */ field, text = status) =>
    Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) / 1024;
  return {
    pid,
    role: command.includes('keeper/main.js') ? 'keeper' : 'server',
    cpuMs: (Number(stat[11]) + Number(stat[12])) * MS_PER_TICK,
    rssMb: mb('VmRSS'),
    pssMb: mb('Pss', read(`/proc/${pid}/smaps_rollup`)),
    peakMb: mb('VmHWM')
  };
}

/** @param {string} file */
function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return ''; // the process has ended
  }
}
