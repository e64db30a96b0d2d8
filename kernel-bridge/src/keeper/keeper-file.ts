/** `keeper.json` and `launch.json` in a kernel's folder, and the names beside them. */
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
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

const NullableString = Type.Union([Type.String(), Type.Null()]);

/** What a gateway needs to find a keeper, and to tell it from another process with its pid. */
const KeeperRecord = Type.Object({
  kernelId: Type.String(),
  pid: Type.Integer({ minimum: 1 }),
  /** `processStart` of the keeper. */
  processStart: NullableString,
  kernelPid: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
  kernelProcessStart: NullableString,
  startedAt: Type.String(),
  socketPath: Type.String()
});
export type KeeperRecord = Static<typeof KeeperRecord>;

const Launch = Type.Object({
  kernelId: Type.String({ minLength: 1 }),
  specName: Type.String(),
  displayName: Type.String(),
  argv: Type.Array(Type.String(), { minItems: 1 }),
  resourceDir: NullableString,
  env: Type.Record(Type.String(), Type.String()),
  cwd: Type.String({ minLength: 1 }),
  interruptMode: Type.Union([Type.Literal('signal'), Type.Literal('message')]),
  bestEffort: Type.Boolean(),
  runDir: Type.String({ minLength: 1 }),
  restartLimit: Type.Integer({ minimum: 0 }),
  shutdownWaitMs: Type.Integer({ minimum: 0 }),
  journalBytes: Type.Optional(Type.Integer({ minimum: 1 }))
});

/** Null when there is no such file, or not a complete one. */
export async function readKeeperRecord(kernelDir: string): Promise<KeeperRecord | null> {
  let text: string;
  try {
    text = await readFile(kernelPaths(kernelDir).keeper, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      return null;
    }
    throw error;
  }
  try {
    const value: unknown = JSON.parse(text);
    return Value.Check(KeeperRecord, value) ? value : null;
  } catch {
    return null;
  }
}

export async function writeKeeperRecord(kernelDir: string, record: KeeperRecord): Promise<void> {
  await writePrivateFile(kernelPaths(kernelDir).keeper, record);
}

export async function readLaunch(kernelDir: string): Promise<LaunchDescription> {
  const file = kernelPaths(kernelDir).launch;
  let value: unknown;
  try {
    value = JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new KeeperError('launch_invalid', `${file} cannot be read as JSON; start the kernel anew.`, {
      cause
    });
  }
  if (!Value.Check(Launch, value)) {
    const fault = Value.Errors(Launch, value).First();
    throw new KeeperError(
      'launch_invalid',
      `${file} does not describe a kernel: "${fault?.path}" ${fault?.message}.`
    );
  }
  return value;
}

/** JSON, readable by its owner alone, complete or not there at all. */
export async function writePrivateFile(file: string, content: object): Promise<void> {
  const draft = `${file}.${process.pid}.tmp`;
  try {
    await writeFile(draft, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
