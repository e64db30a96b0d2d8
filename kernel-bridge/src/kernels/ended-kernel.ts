/** What stays in the folder of a kernel that has ended: its journal, the raw output of its process, and `ended.json`. */
import { readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { measureSegments } from '../journal/index.js';
import { writeAtomically } from '../platform/write-atomically.js';

const EndedKernel = Type.Object({
  kernelId: Type.String(),
  /** Kernelspec name, null when it is no longer known. */
  specName: Type.Union([Type.String(), Type.Null()]),
  endedAt: Type.String({ description: 'ISO 8601' }),
  reason: Type.String()
});
export type EndedKernel = Static<typeof EndedKernel>;

const ENDED_FILE = 'ended.json';
/** The reason of a kernel that somebody wanted to end, which its machine did not take along. */
export const SHUT_DOWN = 'shut down';

/** The rest describes a process that is gone, or, as the environment in launch.json, should not be kept. */
const KEPT = /^(journal|kernel\.log(\.1)?|outputs\.index|documents\.json)$/;

/** Null for a kernel that was not ended through a gateway. */
export async function readEnded(kernelDir: string): Promise<EndedKernel | null> {
  try {
    const value: unknown = JSON.parse(await readFile(path.join(kernelDir, ENDED_FILE), 'utf8'));
    return Value.Check(EndedKernel, value) && Number.isFinite(Date.parse(value.endedAt)) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** A kernel has ended: its journal stays until retention removes it. Without a journal nothing stays. */
export async function leaveJournal(kernelDir: string, ended: EndedKernel): Promise<void> {
  if ((await measureSegments(path.join(kernelDir, 'journal'))).length === 0) {
    await rm(kernelDir, { recursive: true, force: true });
    return;
  }
  const note = (): Promise<void> => writeAtomically(path.join(kernelDir, ENDED_FILE), ended);
  // First, so that a crash in between leaves a kernel that is known to have ended.
  const isNoted = await note().then(
    () => true,
    () => false
  );
  await keepOnlyJournal(kernelDir);
  // On a full disk there may be room for it now.
  if (!isNoted) await note();
}

/** Removes what describes a process that no longer runs. */
export async function keepOnlyJournal(kernelDir: string): Promise<void> {
  for (const name of await readdir(kernelDir)) {
    if (name !== ENDED_FILE && !KEPT.test(name)) {
      await rm(path.join(kernelDir, name), { recursive: true, force: true });
    }
  }
}

/** A kernel with this id begins again, and its journal goes on. */
export async function forgetEnd(kernelDir: string): Promise<void> {
  await rm(path.join(kernelDir, ENDED_FILE), { force: true });
}
