/**
 * One gateway per state folder. The lock is a file that names its owner by pid and start time, so that a lock left
 * behind by a gateway that was killed is recognised, also when its pid means another process by now.
 */
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { processStart } from '../keeper/process-identity.js';
import { ServeError } from './server-errors.js';

interface Owner {
  readonly pid: number;
  readonly start: string;
}

/** Takes the lock or throws `state_dir_in_use`. Disposing gives it back. */
export async function lockStateFolder(folder: string, gatewayId: string): Promise<AsyncDisposable> {
  const lock = path.join(folder, 'gateway.lock');
  const mine = `${lock}.${gatewayId}`;
  const owner: Owner = { pid: process.pid, start: (await processStart(process.pid)) ?? 'unknown' };
  const content = JSON.stringify(owner);
  await writeFile(mine, content, { mode: 0o600 });
  try {
    // A file that was just put aside may belong to a gateway that starts at the same time; look again then.
    for (let attempt = 0; attempt < 10; attempt++) {
      if (await tryLink(mine, lock)) return { [Symbol.asyncDispose]: () => release(lock, content) };
      await putAsideIfStale(lock, folder, `${mine}.stale`);
    }
  } finally {
    await rm(mine, { force: true });
  }
  throw new ServeError(
    'state_dir_in_use',
    `Other gateways are starting in ${folder} at the same time; try again.`
  );
}

/** Making a hard link fails when the name exists, and the file has its whole content from the first moment. */
async function tryLink(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

async function putAsideIfStale(lock: string, folder: string, aside: string): Promise<void> {
  const text = await readFile(lock, 'utf8').catch(() => null);
  if (text === null) return;
  const owner = parse(text);
  if (owner && (await processStart(owner.pid)) === owner.start) {
    throw new ServeError(
      'state_dir_in_use',
      `A gateway (pid ${owner.pid}) already serves ${folder}; use it, end it with "tpulab stop", or name another folder with --state-dir.`
    );
  }
  try {
    await rename(lock, aside);
    // Between our look and the renaming somebody else may have replaced the stale lock by a good one.
    if ((await readFile(aside, 'utf8')) !== text) await tryLink(aside, lock);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  } finally {
    await rm(aside, { force: true });
  }
}

async function release(lock: string, content: string): Promise<void> {
  if ((await readFile(lock, 'utf8').catch(() => null)) === content) await rm(lock, { force: true });
}

function parse(text: string): Owner | null {
  try {
    const value = JSON.parse(text) as Partial<Owner>;
    return typeof value.pid === 'number' && typeof value.start === 'string'
      ? { pid: value.pid, start: value.start }
      : null;
  } catch {
    return null;
  }
}
