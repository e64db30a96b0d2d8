/** `keeper.json` and `launch.json` in a kernel's folder, and the names beside them. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  integer,
  isShaped,
  list,
  object,
  oneOf,
  orNull,
  record,
  type Shaped,
  text,
  truth
} from '../platform/shape.js';
import { writeForThisBoot } from '../platform/write-atomically.js';
import type { LaunchDescription } from './contract.js';
import { KeeperError } from './keeper-error.js';

export interface KernelPaths {
  readonly launch: string;
  readonly keeper: string;
  /** Held by the keeper for as long as it lives. */
  readonly lock: string;
  readonly connection: string;
  readonly keeperLog: string;
  readonly kernelLog: string;
  readonly journal: string;
}

export function kernelPaths(kernelDir: string): KernelPaths {
  const file = (name: string): string => join(kernelDir, name);
  return {
    launch: file('launch.json'),
    keeper: file('keeper.json'),
    lock: file('keeper.lock'),
    connection: file('connection.json'),
    keeperLog: file('keeper.log'),
    kernelLog: file('kernel.log'),
    journal: file('journal')
  };
}

/** What a gateway needs to find a keeper, and to tell it from another process with its pid. */
const KeeperRecord = object({
  kernelId: text(),
  pid: integer({ min: 1 }),
  /** `processStart` of the keeper. */
  processStart: orNull(text()),
  kernelPid: orNull(integer({ min: 1 })),
  kernelProcessStart: orNull(text()),
  startedAt: text(),
  socketPath: text()
});
export type KeeperRecord = Shaped<typeof KeeperRecord>;

const Launch = object(
  {
    kernelId: text({ min: 1 }),
    specName: text(),
    displayName: text(),
    argv: list(text(), { min: 1 }),
    resourceDir: orNull(text()),
    env: record(text()),
    cwd: text({ min: 1 }),
    interruptMode: oneOf('signal', 'message'),
    bestEffort: truth,
    runDir: text({ min: 1 }),
    restartLimit: integer({ min: 0 }),
    shutdownWaitMs: integer({ min: 0 })
  },
  { journalBytes: integer({ min: 1 }) }
);

/** Null when there is no such file, or not a complete one. */
export async function readKeeperRecord(kernelDir: string): Promise<KeeperRecord | null> {
  let content: string;
  try {
    content = await readFile(kernelPaths(kernelDir).keeper, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      return null;
    }
    throw error;
  }
  try {
    const value: unknown = JSON.parse(content);
    return isShaped(KeeperRecord, value) ? value : null;
  } catch {
    return null;
  }
}

export async function writeKeeperRecord(kernelDir: string, record: KeeperRecord): Promise<void> {
  await writeForThisBoot(kernelPaths(kernelDir).keeper, record);
}

export async function readLaunch(kernelDir: string): Promise<LaunchDescription> {
  const file = kernelPaths(kernelDir).launch;
  let value: unknown;
  try {
    value = JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new KeeperError('launch_invalid', `${file} is not valid JSON; start the kernel again.`, {
      cause
    });
  }
  if (!isShaped(Launch, value)) {
    throw new KeeperError('launch_invalid', `${file} does not describe a kernel: ${Launch.fault(value)}.`);
  }
  return value;
}
