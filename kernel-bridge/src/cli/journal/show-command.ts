/** `tpulab journal show`: the records of a journal, one line each. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Command, InvalidArgumentError, Option } from 'commander';
import { gapOf, JournalReader } from '../../journal/index.js';
import { chosenStateFolder, type StateOptions } from '../running-gateway.js';
import { interruptible, type Streams } from '../output.js';
import { chooseJournal, type ChosenJournal, KERNEL_ARGUMENT } from './choose-journal.js';
import { type LineSink, streamSink } from './line-sink.js';
import { type RecordSummary, summarize, summaryLine } from './record-view.js';

/** Fast enough for a person who watches; reading the end of a file is cheap. */
const FOLLOW_MS = 250;

/** A record by its number, or by the time on its keeper's clock. */
export type Bound = { readonly seq: number } | { readonly timeMs: number };

interface ShowOptions extends StateOptions {
  readonly from?: Bound;
  readonly to?: Bound;
  readonly type: readonly string[];
  readonly channel?: string;
  readonly follow?: true;
}

export function showCommand(streams: Streams): Command {
  return new Command('show')
    .description('show records: number, time, channel (> from a client), type, size, parent request')
    .argument('<kernel>', KERNEL_ARGUMENT)
    .option('--from <seq|time>', 'first record, or an ISO 8601 time', parseBound)
    .option('--to <seq|time>', 'last record, or an ISO 8601 time', parseBound)
    .option('--type <name>', 'only this message type, such as stream or gap; repeatable', collect, [])
    .addOption(
      new Option('--channel <name>', 'only this channel').choices([
        'shell',
        'control',
        'stdin',
        'iopub',
        'bridge'
      ])
    )
    .option('--follow', 'keep printing new records until interrupted or the kernel ends')
    .action((kernel: string, options: ShowOptions) =>
      interruptible(async signal => {
        const journal = await chooseJournal(await chosenStateFolder(options.stateDir), kernel);
        await using sink = streamSink(streams.stdout);
        const ending = AbortSignal.any([signal, sink.closed]);
        try {
          await show(journal, options, sink, ending);
        } catch (error) {
          if (!ending.aborted) throw error;
        }
      })
    );
}

async function show(
  journal: ChosenJournal,
  options: ShowOptions,
  sink: LineSink,
  signal: AbortSignal
): Promise<void> {
  const { from, to, follow } = options;
  const reader = new JournalReader(journal.dir);
  const last = to !== undefined && 'seq' in to ? to.seq : Infinity;
  let next = from !== undefined && 'seq' in from ? from.seq : await reader.firstSeq();
  for (;;) {
    // Checked before the read, so that all records written before the kernel's end are read.
    const isOver = follow !== true || hasEnded(journal);
    for await (const batch of reader.readAcross(next, { to: last, signal, ...openEnd(follow) })) {
      for (const record of batch) {
        next = (gapOf(record)?.toSeq ?? record.seq) + 1;
        const summary = summarize(record);
        if (isWanted(summary, options)) {
          await sink.write(options.json === true ? JSON.stringify(summary) : summaryLine(summary));
        }
      }
    }
    if (isOver || next > last) return;
    await delay(FOLLOW_MS, undefined, { signal });
  }
}

/** With `--follow`, waits for a segment after the damage; without it, the command reports that the rest cannot be read. */
function openEnd(follow: true | undefined): { newest?: () => number } {
  return follow === true ? { newest: () => 0 } : {};
}

function hasEnded({ kernel }: ChosenJournal): boolean {
  return kernel === null || kernel.endedAt !== null || existsSync(path.join(kernel.kernelDir, 'ended.json'));
}

/** The time of every record is compared: the clock may have been set in between, and only numbers give the order. */
function isWanted(summary: RecordSummary, { from, to, type, channel }: ShowOptions): boolean {
  const time = Date.parse(summary.time);
  return (
    (type.length === 0 || type.includes(summary.msgType ?? '')) &&
    (channel === undefined || summary.channel === channel) &&
    (from === undefined || 'seq' in from || time >= from.timeMs) &&
    (to === undefined || 'seq' in to || time <= to.timeMs)
  );
}

export function parseBound(text: string): Bound {
  if (/^\d{1,15}$/.test(text) && Number(text) > 0) return { seq: Number(text) };
  const timeMs = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : NaN;
  if (Number.isNaN(timeMs)) {
    throw new InvalidArgumentError('Give the number of a record, or a time as 2026-05-01T12:00:00Z.');
  }
  return { timeMs };
}

function collect(value: string, previous: readonly string[]): readonly string[] {
  return [...previous, value];
}
