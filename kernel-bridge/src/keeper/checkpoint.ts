/**
 * `checkpoint.json` in a kernel's folder: the state of the kernel as of one record of the journal. A keeper that takes over
 * reads on in the journal from there, and so need not read all of it.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  integer,
  isShaped,
  list,
  object,
  orNull,
  pair,
  type Shaped,
  text,
  truth
} from '../platform/shape.js';
import { writeForThisBoot } from '../platform/write-atomically.js';

const RestorableState = object({
  /** The kernel has answered, and takes requests. */
  ready: truth,
  /** `header.session` of its messages. */
  session: orNull(text()),
  /** What it is busy with: subshell ('' is the main one), header of the request as the kernel sent it. */
  busy: list(pair(text(), text()))
});
export type RestorableState = Shaped<typeof RestorableState>;

const Checkpoint = object(
  {
    /** Everything up to this record has been taken into account. */
    seq: integer({ min: 0 }),
    /** The process that this is about: after a restart it is another one. */
    kernelPid: integer(),
    state: RestorableState,
    /** Content (JSON text) of its last `kernel_info_reply`. */
    kernelInfo: orNull(text())
  },
  {
    /** See `KernelSnapshot`. */
    renumberedFrom: integer({ min: 1 })
  }
);
export type Checkpoint = Shaped<typeof Checkpoint>;

export function checkpointFile(kernelDir: string): string {
  return join(kernelDir, 'checkpoint.json');
}

/** Null when there is none, or none that can be read: then the journal is read from its beginning. */
export async function readCheckpoint(kernelDir: string): Promise<Checkpoint | null> {
  try {
    const value: unknown = JSON.parse(await readFile(checkpointFile(kernelDir), 'utf8'));
    return isShaped(Checkpoint, value) ? value : null;
  } catch {
    return null;
  }
}

export async function writeCheckpoint(kernelDir: string, checkpoint: Checkpoint): Promise<void> {
  await writeForThisBoot(checkpointFile(kernelDir), checkpoint);
}
