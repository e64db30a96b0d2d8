// @ts-check
/** One set-up at a time in a checkout: a second one waits for the first. */
import { mkdir, open, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { checkout } from './checkout.mjs';
import { errnoOf, Interrupted } from './setup-problem.mjs';

const FILE = path.join(checkout.made, 'set-up.lock');
const LOOK_AGAIN_MS = 300;

/**
 * @template T
 * @param {() => Promise<T>} work
 * @param {AbortSignal} signal
 * @param {(pid: number) => void} onWait called once when another set-up is running
 * @returns {Promise<T>}
 */
export async function withSetUpLock(work, signal, onWait) {
  await mkdir(checkout.made, { recursive: true });
  let said = false;
  while (!(await take())) {
    const holder = await livingHolder();
    if (holder === null) {
      await rm(FILE, { force: true });
      continue;
    }
    if (!said) onWait(holder);
    said = true;
    await delay(LOOK_AGAIN_MS, undefined, { signal }).catch(() => {
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
  try {
    const file = await open(FILE, 'wx', 0o600);
    await file.writeFile(`${process.pid}\n`);
    await file.close();
    return true;
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false;
    throw error;
  }
}

/** @returns {Promise<number | null>} */
async function livingHolder() {
  const pid = Number((await readFile(FILE, 'utf8').catch(() => '')).trim());
  if (!Number.isInteger(pid) || pid <= 0 || pid === process.pid) return null;
  try {
    process.kill(pid, 0);
    return pid;
  } catch (error) {
    return errnoOf(error) === 'EPERM' ? pid : null;
  }
}
