/** The journals of a state folder, with what retention has to know of each. Reads only, and disturbs no keeper. */
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { measureSegments, type SegmentSize } from '../journal/index.js';
import { presenceOfKernel, readLaunch } from '../keeper-protocol/keeper-file.js';
import { FRESH_MS } from '../platform/process-identity.js';
import { readEnded } from './ended-kernel.js';

export interface JournalFolder {
  readonly kernelId: string;
  readonly kernelDir: string;
  readonly journalDir: string;
  /** Kernelspec name, null when it is not known any more. */
  readonly specName: string | null;
  /** Unix milliseconds; null while the kernel's keeper, or the kernel itself, runs, and when it may. */
  readonly endedAt: number | null;
  /** The other machine or container whose kernel this is, and whether its keeper has stopped beating; null: of this one. */
  readonly elsewhere: { readonly name: string; readonly isSilent: boolean } | null;
  /** Oldest first. */
  readonly segments: readonly SegmentSize[];
  /** What repairs have kept beside the segments. */
  readonly damaged: { readonly files: number; readonly bytes: number };
}

/** Kernels that count as running whatever their processes say. `isEnded`: a gateway has noted the end of the kernel. */
export type IsKept = (kernelId: string, isEnded: boolean) => boolean;

export async function findJournals(stateDir: string, isKept: IsKept = () => false): Promise<JournalFolder[]> {
  const kernels = path.join(stateDir, 'kernels');
  let names: string[];
  try {
    names = await readdir(kernels);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  const found: JournalFolder[] = [];
  // One after the other: there may be hundreds, and nobody waits.
  for (const kernelId of names.sort()) {
    const folder = await describe(kernelId, path.join(kernels, kernelId), isKept);
    if (folder) found.push(folder);
  }
  return found;
}

export function bytesOf({ segments, damaged }: JournalFolder): number {
  return segments.reduce((sum, { bytes }) => sum + bytes, damaged.bytes);
}

/** Null where there is no journal, and for a folder that is being removed. */
async function describe(kernelId: string, kernelDir: string, isKept: IsKept): Promise<JournalFolder | null> {
  const journalDir = path.join(kernelDir, 'journal');
  const segments = await measureSegments(journalDir);
  const newest = segments.at(-1);
  if (!newest) return null;
  const ended = await readEnded(kernelDir);
  const { presence, elsewhere } = await presenceOfKernel(kernelDir);
  const launch = ended ? null : await readLaunch(kernelDir).catch(() => null);
  const lives = isKept(kernelId, ended !== null) || presence !== 'ended';
  return {
    kernelId,
    kernelDir,
    journalDir,
    specName: ended?.specName ?? launch?.specName ?? null,
    // A keeper that was killed leaves no word; then the last record is the end.
    endedAt: lives ? null : ended ? Date.parse(ended.endedAt) : newest.writtenAt,
    elsewhere: elsewhere === null ? null : { name: elsewhere, isSilent: presence === 'silent' },
    segments,
    damaged: await measureDamaged(journalDir)
  };
}

/** Nobody has noted an end, and it was just written: by a keeper that cannot be seen, such as one of an earlier version on another machine. */
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
