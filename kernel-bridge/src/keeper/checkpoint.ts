/**
 * `checkpoint.json` in a kernel's folder: the state of the kernel as of one record of the journal. A keeper that takes over
 * reads on in the journal from there, and so need not read all of it.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { writePrivateFile } from './keeper-file.js';

const NullableString = Type.Union([Type.String(), Type.Null()]);

export const RestorableState = Type.Object({
  /** The kernel has answered, and takes requests. */
  ready: Type.Boolean(),
  /** `header.session` of its messages. */
  session: NullableString,
  /** What it is busy with: subshell ('' is the main one), header of the request as the kernel sent it. */
  busy: Type.Array(Type.Tuple([Type.String(), Type.String()]))
});
export type RestorableState = Static<typeof RestorableState>;

const Checkpoint = Type.Object({
  /** Everything up to this record has been taken into account. */
  seq: Type.Integer({ minimum: 0 }),
  /** The process that this is about: after a restart it is another one. */
  kernelPid: Type.Integer(),
  state: RestorableState,
  /** Content (JSON text) of its last `kernel_info_reply`. */
  kernelInfo: NullableString
});
export type Checkpoint = Static<typeof Checkpoint>;

export function checkpointFile(kernelDir: string): string {
  return join(kernelDir, 'checkpoint.json');
}

/** Null when there is none, or none that can be read: then the journal is read from its beginning. */
export async function readCheckpoint(kernelDir: string): Promise<Checkpoint | null> {
  try {
    const value: unknown = JSON.parse(await readFile(checkpointFile(kernelDir), 'utf8'));
    return Value.Check(Checkpoint, value) ? value : null;
  } catch {
    return null;
  }
}

export async function writeCheckpoint(kernelDir: string, checkpoint: Checkpoint): Promise<void> {
  await writePrivateFile(checkpointFile(kernelDir), checkpoint);
}
