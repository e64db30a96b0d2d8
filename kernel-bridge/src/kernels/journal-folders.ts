/** The journals of a state folder, with the data that retention needs. Only reads, and disturbs no keeper. */
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { measureSegments, type SegmentSize } from '../journal/index.js';
import { presenceOfKernel, readLaunch } from '../keeper-protocol/keeper-file.js';
import { FRESH_MS } from '@tpulab/platform/process-identity.js';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { writeAtomically } from '@tpulab/platform/write-atomically.js';
import { ifMissing } from '@tpulab/platform/missing-files.js';

export interface JournalFolder {
  readonly kernelId: string;
  readonly kernelDir: string;
  readonly journalDir: string;
  /** Kernelspec name, null when it is no longer known. */
  readonly specName: string | null;
  /** Unix milliseconds; null while the kernel's keeper, or the kernel itself, runs or may run. */
  readonly endedAt: number | null;
  /**
   * The other machine or container that owns this kernel, and whether its keeper's heartbeat has stopped; null: this
   * machine.
   */
  readonly elsewhere: { readonly name: string; readonly isSilent: boolean } | null;
  /** Oldest first. */
  readonly segments: readonly SegmentSize[];
  /** Files that repairs have kept beside the segments. */
  readonly damaged: { readonly files: number; readonly bytes: number };
}

/**
 * Whether a kernel counts as running, whatever the state of its processes. `isEnded`: a gateway has recorded the end of the
 * kernel.
 */
type IsInUse = (kernelId: string, isEnded: boolean) => boolean;

export async function findJournals(
  stateDir: string,
  isInUse: IsInUse = () => false
): Promise<JournalFolder[]> {
  const kernels = path.join(stateDir, 'kernels');
  const names = await readdir(kernels).catch(ifMissing<string[]>([]));
  const found: JournalFolder[] = [];
  // One after the other: there may be hundreds, and no client waits.
  for (const kernelId of names.sort()) {
    const folder = await describe(kernelId, path.join(kernels, kernelId), isInUse);
    if (folder) found.push(folder);
  }
  return found;
}

export function bytesOf({ segments, damaged }: JournalFolder): number {
  return segments.reduce((sum, { bytes }) => sum + bytes, damaged.bytes);
}

/** Null if there is no journal, and for a folder that is being removed. */
async function describe(
  kernelId: string,
  kernelDir: string,
  isInUse: IsInUse
): Promise<JournalFolder | null> {
  const journalDir = path.join(kernelDir, 'journal');
  const segments = await measureSegments(journalDir);
  const newest = segments.at(-1);
  if (!newest) return null;
  const ended = await readEnded(kernelDir);
  const { presence, elsewhere } = await presenceOfKernel(kernelDir);
  const launch = ended ? null : await readLaunch(kernelDir).catch(() => null);
  const isRunning = isInUse(kernelId, ended !== null) || presence !== 'ended';
  return {
    kernelId,
    kernelDir,
    journalDir,
    specName: ended?.specName ?? launch?.specName ?? null,
    // A keeper that was killed leaves no record of the end; then the last journal record counts as the end.
    endedAt: isRunning ? null : ended ? Date.parse(ended.endedAt) : newest.writtenAt,
    elsewhere: elsewhere === null ? null : { name: elsewhere, isSilent: presence === 'silent' },
    segments,
    damaged: await measureDamaged(journalDir)
  };
}

/**
 * The journal has no recorded end and was just written: by a keeper that is not visible, such as a keeper of an earlier
 * version on another machine.
 */
export function mayBeWritten({ endedAt, segments }: JournalFolder): boolean {
  const writtenAt = segments.at(-1)?.writtenAt ?? 0;
  return endedAt === writtenAt && Math.abs(Date.now() - writtenAt) <= FRESH_MS;
}

async function measureDamaged(journalDir: string): Promise<{ files: number; bytes: number }> {
  let files = 0;
  let bytes = 0;
  for (const name of await readdir(journalDir).catch(() => [])) {
    if (!name.endsWith('.damaged')) continue;
    const found = await stat(path.join(journalDir, name)).catch(() => null);
    if (!found) continue;
    files++;
    bytes += found.size;
  }
  return { files, bytes };
}

/* Files that remain in the folder of an ended kernel: its journal, the raw output of its process, and `ended.json`. */

const EndedKernel = Type.Object({
  kernelId: Type.String(),
  /** Kernelspec name, null when it is no longer known. */
  specName: Type.Union([Type.String(), Type.Null()]),
  endedAt: Type.String({ description: 'ISO 8601' }),
  reason: Type.String()
});
export type EndedKernel = Static<typeof EndedKernel>;

const ENDED_FILE = 'ended.json';
/** The reason for a kernel that was shut down on request, not lost with its machine. */
export const SHUT_DOWN = 'shut down';

/** The other files describe an ended process or, like the environment in launch.json, should not remain stored. */
const RETAINED = /^(journal|kernel\.log(\.1)?|outputs\.index|documents\.json)$/;

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

/** Called when a kernel has ended: its journal stays until retention removes it. Without a journal, everything is removed. */
export async function leaveJournal(kernelDir: string, ended: EndedKernel): Promise<void> {
  if ((await measureSegments(path.join(kernelDir, 'journal'))).length === 0) {
    await rm(kernelDir, { recursive: true, force: true });
    return;
  }
  const note = (): Promise<void> => writeAtomically(path.join(kernelDir, ENDED_FILE), ended);
  // Written first, so that a crash in between leaves a kernel with a recorded end.
  const isNoted = await note().then(
    () => true,
    () => false
  );
  await keepOnlyJournal(kernelDir);
  // On a full disk there may be room for it now.
  if (!isNoted) await note();
}

/** Removes the files that describe a process that no longer runs. */
export async function keepOnlyJournal(kernelDir: string): Promise<void> {
  for (const name of await readdir(kernelDir)) {
    if (name !== ENDED_FILE && !RETAINED.test(name)) {
      await rm(path.join(kernelDir, name), { recursive: true, force: true });
    }
  }
}

/** Called when a kernel with this id starts again, and its journal continues. */
export async function forgetEnd(kernelDir: string): Promise<void> {
  await rm(path.join(kernelDir, ENDED_FILE), { force: true });
}
