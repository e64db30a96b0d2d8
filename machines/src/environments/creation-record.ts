/** `tpulab.json` in a created environment: its inputs. Written last, so that its existence marks a complete environment. */
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import {
  describeHolder,
  holderOf,
  LockHeldError,
  type ProcessLock,
  takeProcessLock
} from '@tpulab/platform/process-lock.js';
import { EnvironmentError } from './environment-error.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

export const CreationRecord = Type.Object({
  format: Type.Literal(1),
  name: Type.String(),
  displayName: Type.String(),
  fingerprint: Type.String({ description: 'of the description and the lock file' }),
  createdAt: Type.String(),
  uv: Type.String(),
  accelerator: Type.Optional(
    Type.Union([Type.Literal('cpu'), Type.Literal('tpu')], { description: 'absent: cpu' })
  ),
  added: Type.Optional(
    Type.Array(Type.String(), {
      description: 'packages of the user that were brought along from the one before'
    })
  ),
  python: Type.Optional(
    Type.String({ description: 'of an environment that is somewhere else and was added' })
  ),
  kernelspec: Type.Object({
    argv: Type.Array(Type.String()),
    env: Type.Record(Type.String(), Type.String()),
    envDefaults: Type.Record(Type.String(), Type.String()),
    debugger: Type.Boolean()
  })
});
export type CreationRecord = Static<typeof CreationRecord>;

const FILE = 'tpulab.json';

export async function writeRecord(environment: string, record: CreationRecord): Promise<void> {
  await writeFile(path.join(environment, FILE), `${JSON.stringify(record, null, 2)}\n`);
}

/** null if it is missing or unreadable: such an environment is broken. */
export async function readRecord(environment: string): Promise<CreationRecord | null> {
  const json = jsonIn(await readFile(path.join(environment, FILE), 'utf8').catch(() => null));
  return Value.Check(CreationRecord, json) ? json : null;
}

/** Only one process changes an environment at a time. */
function lockFileOf(environments: string, name: string): string {
  return path.join(environments, `.${name}.lock`);
}

/** Throws EnvironmentError `env_in_use` if another living process holds it. */
export async function lockEnvironment(environments: string, name: string): Promise<ProcessLock> {
  try {
    return await takeProcessLock(lockFileOf(environments, name));
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    throw new EnvironmentError(
      'env_in_use',
      `The environment "${name}" is being changed by ${describeHolder(error.holder)}; wait until it has ended.`
    );
  }
}

export async function isLocked(environments: string, name: string): Promise<boolean> {
  return (await holderOf(lockFileOf(environments, name))) !== null;
}
