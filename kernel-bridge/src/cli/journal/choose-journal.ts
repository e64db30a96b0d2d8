/** Finds the named journal: the journal of a kernel, or a folder with segments, such as a copy from another machine. */
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { listSegments } from '../../journal/segment-file.js';
import { findJournals, type JournalFolder } from '../../kernels/journal-folders.js';
import { holderOf } from '@tpulab/platform/process-lock.js';
import { CommandError } from '../output.js';
import { chooseKernel, documentsInState } from '../kernels/choose-kernel.js';

/** Help text for the argument that names a kernel. */
export const KERNEL_ARGUMENT =
  'id of a kernel, the beginning of its id, the path of its notebook, or a folder with segments';

export interface ChosenJournal {
  /** Id of the kernel, or path of the folder. */
  readonly name: string;
  readonly dir: string;
  /** null for a folder that belongs to no kernel of the state folder. */
  readonly kernel: JournalFolder | null;
}

/** All journals of a state folder. While a gateway runs, only that gateway marks kernels without a recorded end as ended. */
export async function journalsOf(stateDir: string): Promise<JournalFolder[]> {
  const hasGateway = (await holderOf(path.join(stateDir, 'gateway.lock'))) !== null;
  return findJournals(stateDir, (_id, isEnded) => hasGateway && !isEnded);
}

export async function chooseJournal(stateDir: string, requested: string): Promise<ChosenJournal> {
  const kernels = await journalsOf(stateDir);
  if (await isJournalFolder(requested)) {
    const dir = path.resolve(requested);
    return { name: dir, dir, kernel: kernels.find(each => path.resolve(each.journalDir) === dir) ?? null };
  }
  const ids = kernels.map(({ kernelId }) => kernelId);
  const id = chooseKernel(requested, ids, await documentsInState(stateDir));
  const kernel = kernels.find(({ kernelId }) => kernelId === id) ?? null;
  if (kernel === null) throw new CommandError('kernel_unknown', `Kernel ${id} has no journal.`);
  return { name: id, dir: kernel.journalDir, kernel };
}

async function isJournalFolder(requested: string): Promise<boolean> {
  const found = await stat(requested).catch(() => null);
  return found?.isDirectory() === true && (await listSegments(requested)).length > 0;
}
