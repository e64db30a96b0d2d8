// @ts-check
/** Remembers the processes of a start, so that the next one can end those of a killed start. */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from '../setup/checkout.mjs';
import { Descendants } from './descendants.mjs';

const FOLDER = path.join(checkout.state, 'starts');
const WAIT_MS = 10_000;

/** @param {string} mark */
export async function rememberStart(mark) {
  await mkdir(FOLDER, { recursive: true, mode: 0o700 });
  await writeFile(path.join(FOLDER, mark), `${process.pid}\n`, { mode: 0o600 });
}

/** @param {string} mark */
export async function forgetStart(mark) {
  await rm(path.join(FOLDER, mark), { force: true });
}

/**
 * Ends the remaining processes of killed starts.
 *
 * @returns {Promise<number>} the number of ended processes
 */
export async function endLeftovers() {
  let count = 0;
  for (const mark of await readdir(FOLDER).catch(() => /** @type {string[]} */ ([]))) {
    const pid = Number(await readFile(path.join(FOLDER, mark), 'utf8').catch(() => ''));
    if (await isStart(pid)) continue;
    count += await new Descendants(mark).end(WAIT_MS);
    await forgetStart(mark);
  }
  return count;
}

/**
 * Whether the process that wrote the file still lives. A reused pid only delays the
 * clean-up.
 *
 * @param {number} pid
 */
async function isStart(pid) {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
