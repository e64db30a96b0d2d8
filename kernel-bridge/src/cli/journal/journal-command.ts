/** `tpulab journal`: the stored output of kernels. All subcommands work with or without a gateway. */
import { Command } from 'commander';
import { repairJournal, UnrepairedError } from '../../journal/index.js';
import { kernelPaths } from '../../keeper-protocol/keeper-file.js';
import { LockHeldError, takeProcessLock } from '@tpulab/platform/process-lock.js';
import { chosenStateFolder, ofState, type StateOptions, withMirrorOption } from '../running-gateway.js';
import { CommandError, print, type Streams } from '../output.js';
import { chooseJournal, type ChosenJournal, KERNEL_ARGUMENT } from './choose-journal.js';
import { exportCommand } from './export-command.js';
import { listCommand } from './list-command.js';
import { pruneCommand } from './prune-command.js';
import { showCommand } from './show-command.js';
import { verify, verifyCommand } from './verify-command.js';

export function journalCommand(streams: Streams): Command {
  const journal = new Command('journal').description('read, check, export and prune kernel journals');
  for (const command of [
    listCommand(streams),
    showCommand(streams),
    verifyCommand(streams),
    exportCommand(streams),
    pruneCommand(streams),
    repairCommand(streams)
  ]) {
    journal.addCommand(ofState(withMirrorOption(command)));
  }
  return journal;
}

/** `tpulab journal repair`: sets aside the damaged end of a journal, as a keeper does when it opens one. */
function repairCommand(streams: Streams): Command {
  return new Command('repair')
    .description(
      'truncate the newest segment at its first bad record and keep the rest beside it as *.damaged; earlier damage cannot be repaired and is only reported'
    )
    .argument('<kernel>', KERNEL_ARGUMENT)
    .action(async (requested: string, options: StateOptions) => {
      const journal = await chooseJournal(await chosenStateFolder(options.stateDir), requested);
      await using lock = await lockOut(journal);
      const { cuts, nextSeq } = await repaired(journal);
      const { faults } = await verify(journal);
      const result = { journal: journal.name, cuts, nextSeq, faults, locked: lock !== null };
      const lines = [
        ...cuts.map(
          ({ segment, damagedBytes, damagedFile, why }) =>
            `${segment}: ${why}; ${damagedBytes} bytes are kept in ${damagedFile}.`
        ),
        ...(cuts.length === 0 ? [`The end of the journal of ${journal.name} is in order.`] : []),
        ...faults.map(
          ({ segment, offset, seq, why }) =>
            `${segment} stays damaged at byte ${offset}, record ${seq} (${why}); readers continue with the next segment.`
        )
      ];
      print(streams, options, result, lines.join('\n'));
    });
}

/** No keeper may write meanwhile. null for a folder that no keeper can have. */
async function lockOut({ name, kernel }: ChosenJournal): Promise<AsyncDisposable | null> {
  if (kernel === null) return null;
  const inUse = new CommandError(
    'journal_in_use',
    `The kernel ${name} is running, and its keeper writes the journal; a keeper repairs the journal automatically when it starts.`
  );
  if (kernel.endedAt === null) throw inUse;
  try {
    return await takeProcessLock(kernelPaths(kernel.kernelDir).lock);
  } catch (error) {
    throw error instanceof LockHeldError ? inUse : error;
  }
}

async function repaired({ name, dir }: ChosenJournal): ReturnType<typeof repairJournal> {
  try {
    return await repairJournal(dir);
  } catch (error) {
    if (!(error instanceof UnrepairedError)) throw error;
    const code = (error.cause as NodeJS.ErrnoException | undefined)?.code ?? 'an unknown error';
    throw new CommandError(
      'journal_not_repaired',
      `The journal of ${name} could not be repaired (${code}); check the disk space and the permissions of its folder.`,
      { cause: error }
    );
  }
}
