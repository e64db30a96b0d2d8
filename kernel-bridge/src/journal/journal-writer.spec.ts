import { readdir, stat, truncate } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { JournalReader } from './journal-reader.js';
import { JournalWriter } from './journal-writer.js';
import { gapOf } from './record.js';
import { probeRecord, seqAt } from './record-codec.js';
import { segmentFileName } from './segment-file.js';
import { inTemporaryFolder, readAll, writeJournal, WriterLog } from './testing/journal-folder.js';

const bytes = (text: string): Buffer => Buffer.from(text);

describe('a journal writer', { timeout: 60_000 }, () => {
  it('writes a record that came alone in the same turn of the event loop, without a timer', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options());
      writer.append(3, [bytes('a')]);
      expect(log.batches).toHaveLength(0);
      await turn();
      expect(log.batches).toMatchObject([{ firstSeq: 1, lastSeq: 1 }]);
      expect(await readAll(dir)).toHaveLength(1);
      await writer.close();
    });
  });

  it('continues after numbers that were already in use, and readers report the lost ones', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, ['one', 'two', 'three'].map(bytes));
      const file = path.join(dir, segmentFileName(1));
      await truncate(file, (await stat(file)).size - 1);
      const writer = await JournalWriter.open(dir, new WriterLog().options({ highWaterMark: 5 }));
      expect(writer.lastSeq).toBe(5);
      writer.append(3, [bytes('six')]);
      await writer.close();
      const reported: unknown[] = [];
      for await (const batch of new JournalReader(dir).readAcross(1)) {
        reported.push(...batch.map(record => gapOf(record) ?? record.payload.toString()));
      }
      expect(reported).toMatchObject(['one', 'two', { fromSeq: 3, toSeq: 5, count: 3 }, 'six']);
      // The next writer continues there too, without being given the number.
      const next = await JournalWriter.open(dir, new WriterLog().options());
      expect(next.lastSeq).toBe(6);
      await next.close();
    });
  });

  it('writes a burst in batches of 64, each of them before the turn ends', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options());
      // A batch that is 5 ms old is written too, and two lines of this loop may take longer, so the clock is fixed.
      const steady = vi.spyOn(performance, 'now').mockReturnValue(1000);
      for (let index = 0; index < 150; index++) {
        writer.append(3, [bytes(`${index}`)]);
      }
      steady.mockRestore();
      expect(log.batches.map(({ firstSeq, lastSeq }) => [firstSeq, lastSeq])).toEqual([
        [1, 64],
        [65, 128]
      ]);
      await turn();
      expect(log.batches.at(-1)).toMatchObject({ firstSeq: 129, lastSeq: 150 });
      await writer.close();
    });
  });

  it('reports a record only when it is in the file, and calls its `after` callback first', async () => {
    await inTemporaryFolder(async dir => {
      const order: string[] = [];
      const writer = await JournalWriter.open(
        dir,
        new WriterLog().options({
          onWritten: ({ lastSeq }) => order.push(`written ${lastSeq} of ${writer.lastSeq}`)
        })
      );
      writer.append(3, [bytes('a')], { after: () => order.push(`after, ${writer.lastSeq} written`) });
      await turn();
      expect(order).toEqual(['after, 1 written', 'written 1 of 1']);
      await writer.close();
    });
  });

  it('leaves the requested headroom before each batch, and nothing between its records', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(300_000), { minLength: 1, maxLength: 6 }), sizes =>
        inTemporaryFolder(async dir => {
          const log = new WriterLog();
          const writer = await JournalWriter.open(dir, log.options({ headroom: 5 }));
          for (const size of sizes) {
            writer.append(3, [Buffer.alloc(size, 7)]);
          }
          await writer.close();
          let seq = 1;
          for (const batch of log.batches) {
            expect(batch.start).toBeGreaterThanOrEqual(5);
            batch.buffer.fill(0xee, batch.start - 5, batch.start);
            expect(batch.firstSeq).toBe(seq);
            for (let at = batch.start; at < batch.end; seq++) {
              const probe = probeRecord(batch.buffer, at);
              expect(seqAt(batch.buffer, at)).toBe(seq);
              at = probe.kind === 'whole' ? probe.end : Infinity;
            }
          }
          // Writing into the headroom has not changed a record of the previous batch.
          expect((await readAll(dir)).map(({ payload }) => payload.length)).toEqual(sizes);
        })
      ),
      { numRuns: 20 }
    );
  });

  it('begins a new segment when one is full, and keeps a message larger than a segment whole', async () => {
    await inTemporaryFolder(async dir => {
      const writer = await JournalWriter.open(dir, new WriterLog().options({ segmentBytes: 1_000 }));
      const sizes = [400, 400, 400, 5_000, 10, 10];
      for (const size of sizes) {
        writer.append(3, [Buffer.alloc(size, 1)]);
        await turn();
      }
      await writer.close();
      expect((await readdir(dir)).sort()).toEqual([1, 3, 4, 5].map(segmentFileName));
      expect((await readAll(dir)).map(({ payload }) => payload.length)).toEqual(sizes);
    });
  });

  it('continues with the number after the last one when it is reopened', async () => {
    await inTemporaryFolder(async dir => {
      for (const text of ['a', 'b', 'c']) {
        const writer = await JournalWriter.open(dir, new WriterLog().options());
        writer.append(0x80, [bytes(text)]);
        await writer.close();
      }
      expect((await readAll(dir)).map(({ seq, payload }) => [seq, payload.toString()])).toEqual([
        [1, 'a'],
        [2, 'b'],
        [3, 'c']
      ]);
      expect(await readdir(dir)).toHaveLength(1);
    });
  });

  it('syncs automatically: soon after the end of an execution, and otherwise within 100 ms', async () => {
    const { SegmentWriter } = await import('./segment-writer.js');
    const sync = vi.spyOn(SegmentWriter.prototype, 'sync');
    await inTemporaryFolder(async dir => {
      const writer = await JournalWriter.open(dir, new WriterLog().options());
      for (const durable of [false, true]) {
        const before = sync.mock.calls.length;
        writer.append(3, [bytes('a')], { durable });
        await vi.waitFor(() => expect(sync.mock.calls.length).toBe(before + 1), 20_000);
      }
      await writer.close();
    });
    sync.mockRestore();
  });

  it('refuses to append once it is closed, and may be closed twice', async () => {
    await inTemporaryFolder(async dir => {
      const writer = await JournalWriter.open(dir, new WriterLog().options());
      await Promise.all([writer.close(), writer.close()]);
      expect(() => writer.append(3, [bytes('a')])).toThrow(
        expect.objectContaining({ code: 'journal_closed' })
      );
    });
  });
});

describe('a journal that gathers', { timeout: 60_000 }, () => {
  /** The steady clock and the timers stop until the test advances them; turns of the event loop continue. */
  async function gathering(
    use: (writer: JournalWriter, batches: () => number[][]) => Promise<void>
  ): Promise<void> {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options({ coalesceMs: 4 }));
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
      try {
        await use(writer, () => log.batches.map(({ firstSeq, lastSeq }) => [firstSeq, lastSeq]));
      } finally {
        vi.useRealTimers();
      }
      await writer.close();
    });
  }

  it('writes a lone output immediately, and gathers output that closely follows it', async () => {
    await gathering(async (writer, batches) => {
      writer.append(3, [bytes('alone')]);
      await turn();
      expect(batches()).toEqual([[1, 1]]);
      for (const text of ['next', 'and next', 'and next']) {
        writer.append(3, [bytes(text)]);
        await turn();
      }
      expect(batches()).toEqual([[1, 1]]);
      vi.advanceTimersByTime(4);
      expect(batches()).toEqual([
        [1, 1],
        [2, 4]
      ]);
      vi.advanceTimersByTime(2);
      writer.append(3, [bytes('alone again')]);
      await turn();
      expect(batches().at(-1)).toEqual([5, 5]);
    });
  });

  it.each([
    ['a reply or state', { essential: true }],
    ['the end of an execution', { durable: true }],
    ['a request of a client', { after: () => undefined }]
  ])('writes %s immediately, together with gathered output', async (_, options) => {
    await gathering(async (writer, batches) => {
      writer.append(3, [bytes('alone')]);
      await turn();
      writer.append(3, [bytes('output')]);
      writer.append(1, [bytes('urgent')], options);
      await turn();
      expect(batches()).toEqual([
        [1, 1],
        [2, 3]
      ]);
    });
  });
});

describe('a journal when the clock is set', { timeout: 60_000 }, () => {
  it('keeps the order of its records, each with its time by the clock', async () => {
    await inTemporaryFolder(async dir => {
      const clock = vi.spyOn(Date, 'now');
      try {
        const log = new WriterLog();
        const writer = await JournalWriter.open(dir, log.options({ segmentBytes: 200 }));
        // Forward by a year, then back before the start.
        const times = [1_000_000, 1_000_001, 32_000_000_000, 32_000_000_001, 500_000, 500_001];
        for (const [index, time] of times.entries()) {
          clock.mockReturnValue(time);
          writer.append(3, [bytes(`${index}`.padEnd(80))]);
          await turn();
        }
        await writer.close();
        const records = await readAll(dir);
        expect(records.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6]);
        expect(records.map(({ payload }) => Number(payload))).toEqual([0, 1, 2, 3, 4, 5]);
        expect(records.map(({ timeNs }) => Number(timeNs / 1_000_000n))).toEqual(times);
      } finally {
        clock.mockRestore();
      }
    });
  });

  it('neither delays a batch nor ends it early, because only the monotonic clock counts', async () => {
    await inTemporaryFolder(async dir => {
      const wall = vi.spyOn(Date, 'now');
      const steady = vi.spyOn(performance, 'now');
      try {
        const log = new WriterLog();
        steady.mockReturnValue(1000);
        const writer = await JournalWriter.open(dir, log.options());
        for (const time of [10_000, 99_999_999, 5]) {
          wall.mockReturnValue(time);
          writer.append(3, [bytes('a')]);
        }
        expect(log.batches).toHaveLength(0);
        steady.mockReturnValue(1005.5); // 5 ms after the first record of the batch
        writer.append(3, [bytes('a')]);
        expect(log.batches).toMatchObject([{ firstSeq: 1, lastSeq: 4 }]);
        await writer.close();
      } finally {
        wall.mockRestore();
        steady.mockRestore();
      }
    });
  });
});
