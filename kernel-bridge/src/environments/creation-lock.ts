/**
 * At most one process changes an environment at a time. The lock is a file with the holder's pid and start time,
 * so one that a killed process left behind is recognised and taken over.
 */
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { randomUUID } from 'node:crypto';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { EnvironmentError } from './environment-error.js';
import { isSameProcess, processStart } from './process-identity.js';

const Holder = Type.Object({ pid: Type.Integer(), start: Type.String() });
type Holder = Static<typeof Holder>;

export function lockFileOf(environments: string, name: string): string {
  return path.join(environments, `.${name}.lock`);
}

export class CreationLock implements AsyncDisposable {
  readonly #file: string;

  private constructor(file: string) {
    this.#file = file;
  }

  /** Throws EnvironmentError `env_in_use` when another living process holds it. */
  static async take(environments: string, name: string): Promise<CreationLock> {
    const file = lockFileOf(environments, name);
    const own = `${file}.${randomUUID()}`;
    const start = (await processStart(process.pid)) ?? '';
    await writeFile(own, JSON.stringify({ pid: process.pid, start } satisfies Holder), { mode: 0o600 });
    try {
      for (;;) {
        try {
          // A link appears with its content, so nobody ever reads a lock that is half written.
          await link(own, file);
          return new CreationLock(file);
        } catch (error) {
          if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
        }
        const holder = await livingHolder(file);
        if (holder !== null) {
          throw new EnvironmentError(
            'env_in_use',
            `The environment "${name}" is being changed by process ${holder.pid}; wait until that has ended.`
          );
        }
        await removeStale(file);
      }
    } finally {
      await rm(own, { force: true });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#file, { force: true });
  }
}

/** Whether a living process holds the lock of this environment. */
export async function isLocked(environments: string, name: string): Promise<boolean> {
  return (await livingHolder(lockFileOf(environments, name))) !== null;
}

async function livingHolder(file: string): Promise<Holder | null> {
  const holder = await readHolder(file);
  return holder !== null && (await isSameProcess(holder.pid, holder.start)) ? holder : null;
}

async function readHolder(file: string): Promise<Holder | null> {
  try {
    const json: unknown = JSON.parse(await readFile(file, 'utf8'));
    return Value.Check(Holder, json) ? json : null;
  } catch {
    return null;
  }
}

/** By a rename, which only one of several that find the lock stale can win. */
async function removeStale(file: string): Promise<void> {
  const aside = `${file}.${randomUUID()}`;
  try {
    await rename(file, aside);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return;
    throw error;
  }
  try {
    // Between the look and the rename a living process may have taken it: give it back.
    if ((await livingHolder(aside)) !== null) await link(aside, file);
  } finally {
    await rm(aside, { force: true });
  }
}
