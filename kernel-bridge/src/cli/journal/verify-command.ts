/** `tpulab journal verify`: reads all records, verifies every checksum, and reports where a journal is damaged. */
import { Command } from 'commander';
import { type SegmentReport, verifySegments } from '../../journal/index.js';
import { chosenStateFolder, type StateOptions } from '../running-gateway.js';
import { type CommandErrorCode, interruptible, print, type Streams } from '../output.js';
import { chooseJournal, type ChosenJournal, journalsOf, KERNEL_ARGUMENT } from './choose-journal.js';
import { sizeText } from '@tpulab/protocol';

type VerifiedJournal = Awaited<ReturnType<typeof verify>>;

export function verifyCommand(streams: Streams): Command {
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

export async function verify({ name, dir }: ChosenJournal, signal?: AbortSignal) {
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
