/** `tpulab journal prune`: removes old journals, and old segments of running kernels, by age and size. */
import { Command, InvalidArgumentError } from 'commander';
import { JOURNAL_LIMITS } from '../../journal/index.js';
import type { JournalFolder } from '../../kernels/journal-folders.js';
import { oldest, planRemovals, type Removal, remove, whole } from '../../kernels/journal-sweeper.js';
import { chosenStateFolder, type StateOptions } from '../running-gateway.js';
import { CommandError, print, type Streams } from '../output.js';
import { chooseJournal, journalsOf } from './choose-journal.js';
import { sizeText } from '@tpulab/protocol';

interface PruneOptions extends StateOptions {
  readonly olderThan?: number;
  readonly maxSize?: number;
  readonly dryRun?: true;
}

export function pruneCommand(streams: Streams): Command {
  return new Command('prune')
    .description(
      'delete journals of ended kernels and old segments of running ones; segments being written are kept'
    )
    .argument('[kernel...]', 'only these kernels (default: all)')
    .option(
      '--older-than <duration>',
      'remove journals of kernels that ended longer ago, and older segments; for example 14d (default without --max-size)',
      parseDuration
    )
    .option(
      '--max-size <size>',
      'delete the oldest until the total is below this size, such as 20GiB',
      parseSize
    )
    .option('--dry-run', 'only show what would be removed')
    .action(async (requested: readonly string[], options: PruneOptions) => {
      const journals = await chosen(await chosenStateFolder(options.stateDir), requested);
      const plan = planPrune(journals, options, Date.now());
      if (options.dryRun !== true) for (const removal of plan) await remove(removal);
      const bytes = plan.reduce((sum, each) => sum + each.bytes, 0);
      const removed = plan.map(each => ({
        kernel: each.journal.kernelId,
        whole: each.whole,
        segments: each.segments,
        bytes: each.bytes
      }));
      const verb = options.dryRun === true ? 'would be removed' : 'removed';
      const lines = plan.map(each => `  ${lineOf(each)}`);
      const head = plan.length === 0 ? 'Nothing to remove.' : `${sizeText(bytes)} ${verb}:`;
      print(
        streams,
        options,
        { removed, bytes, dryRun: options.dryRun === true },
        [head, ...lines].join('\n')
      );
    });
}

/** Unlike a gateway's own limits, a manual prune also applies the age to segments of running kernels. */
function planPrune(
  journals: readonly JournalFolder[],
  { olderThan, maxSize }: Pick<PruneOptions, 'olderThan' | 'maxSize'>,
  now: number
): Removal[] {
  const ageMs = olderThan ?? (maxSize === undefined ? JOURNAL_LIMITS.retentionMs : Infinity);
  const byAge = journals.flatMap(journal => removalByAge(journal, now - ageMs));
  const remaining = journals.flatMap(journal => {
    const removal = byAge.find(each => each.journal === journal);
    if (removal?.whole === true) return [];
    return [{ ...journal, segments: journal.segments.slice(removal?.segments ?? 0) }];
  });
  const bySize = planRemovals(remaining, { totalBytes: maxSize ?? Infinity, retentionMs: Infinity }, now);
  return [...byAge, ...bySize.map(removal => ({ ...removal, code: 'journal_pruned' as const }))];
}

function removalByAge(journal: JournalFolder, before: number): Removal[] {
  if (journal.elsewhere !== null) return [];
  if (journal.endedAt !== null && journal.endedAt < before) return [whole(journal, 'journal_pruned')];
  const closed = journal.segments.slice(0, -1);
  const young = closed.findIndex(({ writtenAt }) => writtenAt >= before);
  const count = young === -1 ? closed.length : young;
  return count === 0 ? [] : [oldest(journal, count, 'journal_pruned')];
}

async function chosen(stateDir: string, requested: readonly string[]): Promise<JournalFolder[]> {
  if (requested.length === 0) return journalsOf(stateDir);
  const found = new Map<string, JournalFolder>();
  for (const name of requested) {
    const { kernel } = await chooseJournal(stateDir, name);
    if (kernel === null) {
      throw new CommandError(
        'kernel_unknown',
        `"${name}" does not belong to a kernel of this state folder; remove it yourself.`
      );
    }
    found.set(kernel.kernelId, kernel.elsewhere === null ? kernel : released(kernel, kernel.elsewhere));
  }
  return [...found.values()];
}

/**
 * Naming a kernel of another machine confirms that the machine will not return. Refused while the kernel's keeper is
 * active.
 */
function released(
  journal: JournalFolder,
  { name, isSilent }: { name: string; isSilent: boolean }
): JournalFolder {
  if (!isSilent) {
    throw new CommandError(
      'journal_in_use',
      `The kernel ${journal.kernelId} runs on ${name}; shut it down there.`
    );
  }
  return { ...journal, elsewhere: null, endedAt: journal.segments.at(-1)?.writtenAt ?? 0 };
}

function lineOf({ journal, whole: isWhole, segments, bytes }: Removal): string {
  const what = isWhole ? 'the whole journal' : `${segments} oldest segments`;
  return `${journal.kernelId}  ${journal.specName ?? '?'}: ${what}, ${sizeText(bytes)}`;
}

/* Sizes and durations in human notation: `20GiB`, `500MB`, `14d`, `90m`. */

const DURATION_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000
};

/** `k`, `KiB` and so on are powers of 1024, `kB` of 1000. */
function parseSize(text: string): number {
  const [, digits, prefix = '', suffix] =
    /^(\d{1,15}(?:\.\d{1,6})?) ?(?:([kmgt])(i?b)?|b)?$/i.exec(text.trim()) ?? [];
  if (digits === undefined)
    throw new InvalidArgumentError('A size is a number with a unit, for example 500MB or 20GiB.');
  const base = suffix?.length === 1 ? 1000 : 1024;
  return Math.round(Number(digits) * base ** ' kmgt'.indexOf(prefix.toLowerCase() || ' '));
}

function parseDuration(text: string): number {
  const [, digits, unit = ''] = /^(\d{1,15}(?:\.\d{1,6})?) ?([smhdw])$/i.exec(text.trim()) ?? [];
  if (digits === undefined)
    throw new InvalidArgumentError('A duration is a number with a unit s, m, h, d or w, for example 14d.');
  return Math.round(Number(digits) * (DURATION_MS[unit.toLowerCase()] ?? NaN));
}
