/** `tpulab.json` in a created environment: what it was made from. Written last, so it says: this one is complete. */
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';

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

/** Null when there is none, or one that cannot be read: such an environment is broken. */
export async function readRecord(environment: string): Promise<CreationRecord | null> {
  try {
    const json: unknown = JSON.parse(await readFile(path.join(environment, FILE), 'utf8'));
    return Value.Check(CreationRecord, json) ? json : null;
  } catch {
    return null;
  }
}
