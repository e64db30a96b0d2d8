/** `tpulab journal list`: the journals of a state folder. */
import { Command } from 'commander';
import { JournalReader, type JournalRecord, readTrimNotes, verifySegments } from '../../journal/index.js';
import { bytesOf, type JournalFolder } from '../../kernels/journal-folders.js';
import { chosenStateFolder, type StateOptions } from '../running-gateway.js';
import { interruptible, print, type Streams } from '../output.js';
import { journalsOf } from './choose-journal.js';
import { sizeText } from '@tpulab/protocol';
import { timeOf } from './record-view.js';

interface ListOptions extends StateOptions {
  readonly gaps?: true;
}

type ListedJournal = NonNullable<Awaited<ReturnType<typeof describe>>>;

export function listCommand(streams: Streams): Command {
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

/** null for a journal that is removed meanwhile. */
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
    /** The other machine or container whose kernel this is; null: of this one. */
    host: folder.elsewhere?.name ?? null,
    /** ISO 8601; null while it runs. */
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
