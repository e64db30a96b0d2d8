// @ts-check
/** One setup at a time in a checkout: a second one waits for the first. */
import { link, mkdir, open, readFile, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { checkout } from './checkout.mjs';
import { errnoOf, Interrupted } from './setup-problem.mjs';

const FILE = path.join(checkout.made, 'set-up.lock');
const POLL_MS = 300;

/**
 * @template T
 * @param {() => Promise<T>} work
 * @param {AbortSignal} signal
 * @param {(pid: number) => void} onWait called once when another setup is running
 * @returns {Promise<T>}
 */
export async function withSetupLock(work, signal, onWait) {
  await mkdir(checkout.made, { recursive: true });
  let wasReported = false;
  while (!(await take())) {
    const holder = await runningHolder();
    if (holder === null) {
      if (await removeStale()) continue;
    } else {
      if (!wasReported) onWait(holder);
      wasReported = true;
    }
    await delay(POLL_MS, undefined, { signal }).catch(() => {
      throw new Interrupted();
    });
  }
  try {
    return await work();
  } finally {
    await rm(FILE, { force: true });
  }
}

async function take() {
  const own = `${FILE}.${process.pid}`;
  await writeFile(own, `${process.pid}\n`, { mode: 0o600 });
  try {
    // A link appears with its content: no process reads a half-written lock and removes it as a leftover.
    await link(own, FILE);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(own, { force: true });
  }
}

/** A takeover lasts a moment; an older mark was left by a process that was killed in it. */
const TAKEOVER_MS = 10_000;

/**
 * Removes the lock of a process that has ended. Of several that find it, only one does: a slower one would remove the
 * lock that has been acquired since.
 *
 * @returns {Promise<boolean>} false: another process does it
 */
async function removeStale() {
  const takeover = `${FILE}.takeover`;
  try {
    await (await open(takeover, 'wx', 0o600)).close();
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    const since = (await stat(takeover).catch(() => null))?.mtimeMs ?? Date.now();
    if (Date.now() - since > TAKEOVER_MS) await rm(takeover, { force: true });
    return false;
  }
  try {
    if ((await runningHolder()) === null) await rm(FILE, { force: true });
  } finally {
    await rm(takeover, { force: true });
  }
  return true;
}

/** @returns {Promise<number | null>} */
async function runningHolder() {
  const pid = Number((await readFile(FILE, 'utf8').catch(() => '')).trim());
  if (!Number.isInteger(pid) || pid <= 0 || pid === process.pid) return null;
  try {
    process.kill(pid, 0);
    return pid;
  } catch (error) {
    return errnoOf(error) === 'EPERM' ? pid : null;
  }
}
