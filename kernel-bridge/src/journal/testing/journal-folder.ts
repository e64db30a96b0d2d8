/** Journals in temporary folders, for specs. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { JournalReader } from '../journal-reader.js';
import { JournalWriter, type JournalWriterOptions } from '../journal-writer.js';
import type { JournalError } from '../journal-error.js';
import type { JournalRecord } from '../record.js';
import type { WrittenBatch } from '../record-batch.js';

export async function inTemporaryFolder<T>(work: (dir: string) => Promise<T>): Promise<T> {
  const dir = await mkdtemp(join(tmpdir(), 'tpulab-journal-'));
  try {
    return await work(dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** The reports of a writer. */
export class WriterLog {
  readonly batches: WrittenBatch[] = [];
  readonly faults: (JournalError | null)[] = [];

  options(more: Partial<JournalWriterOptions> = {}): JournalWriterOptions {
    return {
      onWritten: batch => this.batches.push(batch),
      onFault: fault => this.faults.push(fault),
      ...more
    };
  }
}

/** Writes a journal with these payloads on iopub and closes it. */
export async function writeJournal(
  dir: string,
  payloads: readonly Buffer[],
  more: Partial<JournalWriterOptions> = {}
): Promise<void> {
  const writer = await JournalWriter.open(dir, new WriterLog().options(more));
  for (const payload of payloads) {
    writer.append(3, [payload]);
    if (more.segmentBytes !== undefined) {
      await turn(); // one record per batch, so that segments can be cut between any two
    }
  }
  await writer.close();
}

export async function readAll(dir: string, from = 1): Promise<JournalRecord[]> {
  const records: JournalRecord[] = [];
  for await (const batch of new JournalReader(dir).readBatches(from)) {
    records.push(...batch);
  }
  return records;
}
