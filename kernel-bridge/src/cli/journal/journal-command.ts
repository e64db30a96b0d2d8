/** `tpulab journal`: the stored output of kernels. All subcommands work with or without a gateway. */
import { Command } from 'commander';
import { LockHeldError, takeProcessLock } from '@tpulab/platform/process-lock.js';
import { sizeText } from '@tpulab/protocol';
import {
  JournalReader,
  type JournalRecord,
  readTrimNotes,
  repairJournal,
  type SegmentReport,
  UnrepairedError,
  verifySegments
} from '../../journal/index.js';
import { kernelPaths } from '../../keeper-protocol/keeper-file.js';
import { chosenStateFolder, ofState, type StateOptions, withMirrorOption } from '../running-gateway.js';
import { CommandError, type CommandErrorCode, interruptible, print, type Streams } from '../output.js';
import { chooseJournal, type ChosenJournal, journalsOf, KERNEL_ARGUMENT } from './choose-journal.js';
import { exportCommand } from './export-command.js';
import { pruneCommand } from './prune-command.js';
import { showCommand } from './show-command.js';
import { bytesOf, type JournalFolder } from '../../kernels/journal-folders.js';
import { timeOf } from './record-view.js';

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

/** Ensures that no keeper writes meanwhile. null for a folder that no keeper can own. */
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

type VerifiedJournal = Awaited<ReturnType<typeof verify>>;

/** `tpulab journal verify`: reads all records, verifies every checksum, and reports where a journal is damaged. */
function verifyCommand(streams: Streams): Command {
  return new Command('verify')
    .description('check every journal record; exits with 1 if one is damaged')
    .argument('[kernel...]', `${KERNEL_ARGUMENT} (default: all journals)`)
    .action((requested: readonly string[], options: StateOptions) =>
      interruptible(async signal => {
        const verified: VerifiedJournal[] = [];
        for (const journal of await chosen(await chosenStateFolder(options.stateDir), requested)) {
          verified.push(await verify(journal, signal));
        }
        const error = failureOf(verified);
        const damaged = verified.filter(({ faults }) => faults.length > 0).length;
        const result = { journals: verified, damaged, ...(error && { error }) };
        print(streams, options, result, text(verified));
        if (error) {
          streams.stderr.write(`${error.message}\n`);
          process.exitCode = 1;
        }
      })
    );
}

/** One sentence about the first fault; null if there is none. */
function failureOf(verified: readonly VerifiedJournal[]): { code: CommandErrorCode; message: string } | null {
  const damaged = verified.filter(({ faults }) => faults.length > 0);
  const fault = damaged[0]?.faults[0];
  if (fault === undefined) return null;
  const others = damaged.length > 1 ? ` and ${damaged.length - 1} more` : '';
  const message = `The journal of ${damaged[0]?.journal}${others} is damaged, first in ${fault.segment} at byte ${fault.offset}; the readable part is served, and "tpulab journal repair" sets a damaged end aside.`;
  return { code: 'journal_faulty', message };
}

async function chosen(stateDir: string, requested: readonly string[]): Promise<ChosenJournal[]> {
  if (requested.length > 0) return Promise.all(requested.map(name => chooseJournal(stateDir, name)));
  return (await journalsOf(stateDir)).map(kernel => ({
    name: kernel.kernelId,
    dir: kernel.journalDir,
    kernel
  }));
}

async function verify({ name, dir }: ChosenJournal, signal?: AbortSignal) {
  const reports: SegmentReport[] = [];
  for await (const report of verifySegments(dir, signal)) reports.push(report);
  const sum = (of: (report: SegmentReport) => number): number =>
    reports.reduce((total, report) => total + of(report), 0);
  return {
    journal: name,
    records: sum(({ records }) => records),
    gaps: sum(({ gaps }) => gaps),
    bytes: sum(({ bytes }) => bytes),
    /** Bytes after the last whole record: an unfinished write, or cut off by a crash and moved aside at the next start. */
    unfinishedBytes: reports.at(-1)?.unfinishedBytes ?? 0,
    faults: reports.flatMap(({ file, fault }) => (fault === null ? [] : [{ segment: file, ...fault }]))
  };
}

function text(verified: readonly VerifiedJournal[]): string {
  if (verified.length === 0) return 'There are no journals.';
  return verified
    .flatMap(({ journal, records, gaps, bytes, unfinishedBytes, faults }) => [
      `${journal}: ${records} records, ${gaps} gaps, ${sizeText(bytes)}${
        unfinishedBytes === 0 ? '' : `, ${unfinishedBytes} bytes unfinished at the end`
      }: ${faults.length === 0 ? 'in order' : 'DAMAGED'}`,
      ...faults.map(
        ({ segment, offset, seq, why }) => `  ${segment} at byte ${offset}, record ${seq}: ${why}`
      )
    ])
    .join('\n');
}

interface ListOptions extends StateOptions {
  readonly gaps?: true;
}

type ListedJournal = NonNullable<Awaited<ReturnType<typeof describe>>>;

/** `tpulab journal list`: the journals of a state folder. */
function listCommand(streams: Streams): Command {
  return new Command('list')
    .description('list journals of running and ended kernels')
    .option('--gaps', 'also count gaps; reads the whole journal')
    .action((options: ListOptions) =>
      interruptible(async signal => {
        const listed: ListedJournal[] = [];
        for (const folder of await journalsOf(await chosenStateFolder(options.stateDir))) {
          const journal = await describe(folder, options.gaps === true, signal);
          if (journal !== null) listed.push(journal);
        }
        const bytes = listed.reduce((sum, each) => sum + each.bytes, 0);
        const head = `${listed.length} journals, ${sizeText(bytes)}`;
        print(streams, options, { journals: listed, bytes }, [head, ...listed.map(lineOf)].join('\n'));
      })
    );
}

/** null for a journal that is removed while it is read. */
async function describe(folder: JournalFolder, withGaps: boolean, signal: AbortSignal) {
  const reader = new JournalReader(folder.journalDir);
  const firstSeq = await reader.firstSeq();
  const lastSeq = await reader.lastSeq();
  const notes = await readTrimNotes(folder.journalDir);
  if (folder.segments.length === 0) return null;
  let gaps: number | null = null;
  if (withGaps) {
    gaps = 0;
    for await (const report of verifySegments(folder.journalDir, signal)) {
      gaps += report.gaps + (report.fault === null ? 0 : 1);
    }
  }
  return {
    kernel: folder.kernelId,
    name: folder.specName,
    state: folder.endedAt === null ? 'running' : 'ended',
    /** The machine or container whose kernel this is; null: this machine. */
    host: folder.elsewhere?.name ?? null,
    /** ISO 8601; null while the kernel runs. */
    endedAt: folder.endedAt === null ? null : new Date(folder.endedAt).toISOString(),
    records: lastSeq - firstSeq + 1,
    firstSeq,
    lastSeq,
    bytes: bytesOf(folder),
    segments: folder.segments.length,
    firstTime: await timeAt(reader, firstSeq),
    lastTime: await timeAt(reader, lastSeq),
    /** Records before `firstSeq` that a limit removed. */
    trimmed: notes.length === 0 ? 0 : firstSeq - 1,
    damagedFiles: folder.damaged.files,
    /** Gap records; null if they were not counted. */
    gaps
  };
}

/** null if the record cannot be read; `verify` reports the reason. */
async function timeAt(reader: JournalReader, seq: number): Promise<string | null> {
  try {
    const found: JournalRecord[] = [];
    for await (const record of reader.read(seq, { to: seq })) found.push(record);
    return found[0] === undefined ? null : timeOf(found[0]);
  } catch {
    return null;
  }
}

function lineOf(journal: ListedJournal): string {
  const { kernel, name, state, records, bytes, firstTime, lastTime, trimmed, damagedFiles, gaps, host } =
    journal;
  const notes = [
    ...(host === null ? [] : [`on ${host}`]),
    ...(trimmed === 0 ? [] : [`${trimmed} older records removed`]),
    ...(damagedFiles === 0 ? [] : [`${damagedFiles} damaged parts kept`]),
    ...(gaps === null ? [] : [`${gaps} gaps`])
  ];
  const span = `${firstTime ?? '?'} to ${lastTime ?? '?'}`;
  const facts = [
    kernel,
    (name ?? '?').padEnd(16),
    state.padEnd(7),
    `${records} records`,
    sizeText(bytes),
    span
  ];
  return `  ${[...facts, ...notes].join('  ')}`;
}
