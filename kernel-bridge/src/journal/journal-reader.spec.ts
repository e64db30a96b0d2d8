import { rm, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JournalReader } from './journal-reader.js';
import { JournalWriter } from './journal-writer.js';
import type { JournalRecord } from './record.js';
import { segmentFileName } from './segment-file.js';
import { inTemporaryFolder, readAll, WriterLog, writeJournal } from './testing/journal-folder.js';

const lines = (count: number, size = 20): Buffer[] =>
  Array.from({ length: count }, (_, index) => Buffer.from(`line ${index}`.padEnd(size)));

async function collect(records: AsyncIterable<JournalRecord[]>): Promise<number[]> {
  const seqs: number[] = [];
  for await (const batch of records) {
    seqs.push(...batch.map(({ seq }) => seq));
  }
  return seqs;
}

/** Numbers from `from` to `to`, both included. */
const range = (from: number, to: number): number[] =>
  Array.from({ length: Math.max(to - from + 1, 0) }, (_, index) => from + index);

describe('a journal reader', { timeout: 60_000 }, () => {
  it('reads any range over any segments, with the same result with and without an index', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(2_000), { minLength: 1, maxLength: 60 }),
        fc.array(fc.tuple(fc.nat(70), fc.nat(70)), { minLength: 1, maxLength: 5 }),
        (sizes, ranges) =>
          inTemporaryFolder(async dir => {
            const written = sizes.map(size => Buffer.alloc(size, size));
            await writeJournal(dir, written, { segmentBytes: 4_000 });
            const reader = new JournalReader(dir);
            expect(await reader.firstSeq()).toBe(1);
            for (const [from, to] of ranges) {
              expect(await collect(reader.readBatches(from, { to }))).toEqual(
                range(Math.max(from, 1), Math.min(to, sizes.length))
              );
              expect(await reader.lastSeq()).toBe(sizes.length);
            }
          })
      ),
      { numRuns: 30 }
    );
  });

  it('finds records far into a large segment through its index', async () => {
    await inTemporaryFolder(async dir => {
      const written = lines(20_000, 200);
      await writeJournal(dir, written);
      const reader = new JournalReader(dir);
      for (const from of [19_999, 1, 10_000, 15_000, 20_001]) {
        const found: string[] = [];
        for await (const { payload } of reader.read(from, { to: from })) {
          found.push(payload.toString());
        }
        expect(found).toEqual(written.slice(from - 1, from).map(String));
      }
    });
  });

  it('reads no records from an empty journal, and from one that does not exist', async () => {
    await inTemporaryFolder(async dir => {
      const reader = new JournalReader(join(dir, 'none'));
      expect(await collect(reader.readBatches(1))).toEqual([]);
      expect(await reader.lastSeq()).toBe(0);
      expect(await reader.firstSeq()).toBe(1);
    });
  });

  it('follows a writer through all its segments and never sees half a record', async () => {
    await inTemporaryFolder(async dir => {
      const count = 5_000;
      const writer = await JournalWriter.open(dir, new WriterLog().options({ segmentBytes: 64 * 1024 }));
      const writing = (async () => {
        for (const [index, line] of lines(count, 150).entries()) {
          writer.append(3, [line]);
          if (index % 40 === 0) {
            await turn();
          }
        }
        await writer.close();
      })();
      const reader = new JournalReader(dir);
      const seen: number[] = [];
      while (seen.length < count) {
        for await (const { seq, payload } of reader.read(seen.length + 1)) {
          expect(payload.toString().trimEnd()).toBe(`line ${seq - 1}`);
          seen.push(seq);
        }
      }
      await writing;
      expect(seen).toEqual(range(1, count));
    });
  });

  it('reads only as fast as its consumer, and stops on the signal', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(10_000, 200));
      const abort = new AbortController();
      const taking = (async () => {
        let batches = 0;
        for await (const batch of new JournalReader(dir).readBatches(1, { signal: abort.signal })) {
          // At most one chunk is buffered for a consumer, however large the journal is.
          expect(batch.reduce((sum, { payload }) => sum + payload.length, 0)).toBeLessThan(300_000);
          if (++batches === 2) {
            abort.abort();
          }
        }
      })();
      await expect(taking).rejects.toMatchObject({ name: 'AbortError' });
    });
  });

  it('reports where it can resume when a segment in the middle is damaged or missing', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(30, 200), { segmentBytes: 1_000 });
      const reader = new JournalReader(dir);
      const segments = [1, 5, 9, 13, 17, 21, 25, 29];
      const file = join(dir, segmentFileName(5));
      const bytes = await readFile(file);
      bytes[400]! ^= 1;
      await writeFile(file, bytes);
      const seen: number[] = [];
      const reading = (async () => {
        for await (const { seq } of reader.read(1)) {
          seen.push(seq);
        }
      })();
      await expect(reading).rejects.toMatchObject({ code: 'journal_damaged', seq: 6, resumeSeq: 9 });
      expect(seen).toEqual(range(1, 5));
      expect(await collect(reader.readBatches(9))).toEqual(range(9, 30));

      await rm(join(dir, segmentFileName(segments[3]!)));
      await expect(collect(reader.readBatches(9))).rejects.toMatchObject({
        code: 'journal_damaged',
        seq: 13,
        resumeSeq: 17
      });
    });
  });

  it('reports which records are stored when older ones are requested', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(30, 200), { segmentBytes: 1_000 });
      await rm(join(dir, segmentFileName(1)));
      const reader = new JournalReader(dir);
      expect(await reader.firstSeq()).toBe(5);
      await expect(collect(reader.readBatches(1))).rejects.toMatchObject({
        code: 'journal_trimmed',
        firstSeq: 5
      });
      expect(await collect(reader.readBatches(5))).toEqual(range(5, 30));
    });
  });

  it('rescans a segment that a repair has cut and a writer has extended', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(4_000, 200));
      const reader = new JournalReader(dir);
      await collect(reader.readBatches(1));
      const file = join(dir, segmentFileName(1));
      await writeFile(file, (await readFile(file)).subarray(0, 500));
      await writeJournal(dir, lines(4_000, 333));
      expect(await collect(reader.readBatches(3_000))).toEqual(range(3_000, (await readAll(dir)).length));
    });
  });
});
