/** `tpulab journal export`: a journal as lines of JSON, or as a copy of its files. */
import { constants, copyFile, mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { Command, Option } from 'commander';
import { gapOf, JournalReader, TRIM_NOTES_FILE } from '../../journal/index.js';
import { chosenStateFolder, type StateOptions } from '../running-gateway.js';
import { interruptible, print, type Streams, written } from '../output.js';
import { chooseJournal, type ChosenJournal, KERNEL_ARGUMENT } from './choose-journal.js';
import { fileSink, type LineSink, streamSink } from './line-sink.js';
import { exportLine } from './record-view.js';
import { type Bound, parseBound } from './show-command.js';

interface ExportOptions extends StateOptions {
  readonly output?: string;
  readonly copy?: string;
  readonly from?: Bound;
  readonly to?: Bound;
}

export function exportCommand(streams: Streams): Command {
  return new Command('export')
    .description(
      'export a journal as lines of JSON (buffers in base64) to stdout or a file, or copy its files'
    )
    .argument('<kernel>', KERNEL_ARGUMENT)
    .option('--output <file>', 'write to this new file')
    .addOption(
      new Option('--copy <folder>', 'copy the segments into this new folder instead').conflicts('output')
    )
    .option('--from <seq|time>', 'first record, or an ISO 8601 time', parseBound)
    .option('--to <seq|time>', 'last record, or an ISO 8601 time', parseBound)
    .action((kernel: string, options: ExportOptions) =>
      interruptible(async signal => {
        const journal = await chooseJournal(await chosenStateFolder(options.stateDir), kernel);
        const { output, copy } = options;
        if (copy !== undefined) {
          const files = await written('The journal', copy, () => copyFiles(journal, copy, signal));
          const text = `${files} files of the journal of ${journal.name} are in ${copy}.`;
          print(streams, options, { journal: journal.name, folder: copy, files }, text);
        } else if (output !== undefined) {
          const records = await written('The journal', output, async () => {
            await using sink = await fileSink(output);
            return await writeLines(journal, options, sink, signal);
          });
          const text = `${records} records of the journal of ${journal.name} are in ${output}.`;
          print(streams, options, { journal: journal.name, file: output, records }, text);
        } else {
          await using sink = streamSink(streams.stdout);
          const ending = AbortSignal.any([signal, sink.closed]);
          await writeLines(journal, options, sink, ending).catch((error: unknown) => {
            if (!ending.aborted) throw error;
          });
        }
      })
    );
}

async function writeLines(
  { dir }: ChosenJournal,
  { from, to }: ExportOptions,
  sink: LineSink,
  signal: AbortSignal
): Promise<number> {
  const reader = new JournalReader(dir);
  const first = from !== undefined && 'seq' in from ? from.seq : 1;
  const last = to !== undefined && 'seq' in to ? to.seq : Infinity;
  let records = 0;
  for await (const batch of reader.readAcross(first, { to: last, signal })) {
    for (const record of batch) {
      const timeMs = Number(record.timeNs / 1_000_000n);
      const isInTime =
        gapOf(record) !== null ||
        ((from === undefined || 'seq' in from || timeMs >= from.timeMs) &&
          (to === undefined || 'seq' in to || timeMs <= to.timeMs));
      if (isInTime) {
        await sink.write(exportLine(record));
        records++;
      }
    }
  }
  return records;
}

/** Oldest first, so that the latest records of a running kernel are at the end. */
async function copyFiles({ dir }: ChosenJournal, target: string, signal: AbortSignal): Promise<number> {
  await mkdir(target, { mode: 0o700 });
  const names = (await readdir(dir)).filter(
    name => /\.(seg|damaged)$/.test(name) || name === TRIM_NOTES_FILE
  );
  for (const name of names.sort()) {
    signal.throwIfAborted();
    await copyFile(path.join(dir, name), path.join(target, name), constants.COPYFILE_FICLONE);
  }
  return names.length;
}
