import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import fc from 'fast-check';
import { JournalReader } from './journal-reader.js';
import { JournalWriter, LARGE_BYTES } from './journal-writer.js';
import { FROM_CLIENT, type JournalRecord, RecordChannel } from './record.js';
import type { StoredRecord } from './record-batch.js';
import { SEGMENT_HEADER_BYTES, segmentFileName } from './segment-file.js';
import { inTemporaryFolder, readAll, writeJournal, WriterLog } from './testing/journal-folder.js';

const piece = (fill: string, bytes: number): Buffer => Buffer.alloc(bytes, fill);

describe('a large record', { timeout: 60_000 }, () => {
  it('is read back byte for byte, at its place among small ones, over segments', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const stored: StoredRecord[] = [];
      const options = { onStored: (record: StoredRecord) => stored.push(record), segmentBytes: 1024 ** 2 };
      const writer = await JournalWriter.open(dir, log.options(options));
      const payloads: Buffer[] = [];
      for (let turn = 0; turn < 12; turn++) {
        const small = Buffer.from(`small ${turn}`);
        writer.append(RecordChannel.iopub, [small]);
        const pieces = [
          Buffer.from(`head ${turn}`),
          piece(String.fromCharCode(97 + turn), LARGE_BYTES * (1 + (turn % 4)))
        ];
        writer.append(RecordChannel.iopub, pieces);
        payloads.push(small, Buffer.concat(pieces));
      }
      await writer.close();
      const records = await readAll(dir);
      expect(records.map(({ seq }) => seq)).toEqual(payloads.map((_, index) => index + 1));
      expect(records.every(({ payload }, index) => payload.equals(payloads[index]!))).toBe(true);
      expect(stored).toHaveLength(12);
      for (const { seq, segment, offset, bytes } of stored) {
        const file = await readFile(join(dir, segmentFileName(segment)));
        expect(file.subarray(offset, offset + bytes).equals(payloads[seq - 1]!)).toBe(true);
      }
    });
  });

  it('is in the file before any callback, as are all earlier records', async () => {
    await inTemporaryFolder(async dir => {
      const order: string[] = [];
      const writer = await JournalWriter.open(dir, {
        onWritten: ({ firstSeq }) => order.push(`written ${firstSeq}`),
        onStored: ({ seq }) => order.push(`stored ${seq}`),
        onFault: () => order.push('fault')
      });
      writer.append(RecordChannel.iopub, [Buffer.from('before')]);
      writer.append(RecordChannel.shell | FROM_CLIENT, [piece('x', LARGE_BYTES)], {
        after: () => order.push('after')
      });
      expect(order).toEqual(['written 1', 'after', 'stored 2']);
      expect(writer.lastSeq).toBe(2);
      expect(await readAll(dir)).toHaveLength(2);
      await writer.close();
    });
  });

  it('is batched like all others by a writer without a callback for large records', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options());
      writer.append(RecordChannel.iopub, [piece('x', LARGE_BYTES)]);
      await vi.waitFor(() => expect(log.batches).toHaveLength(1), 20_000);
      await writer.close();
    });
  });

  it('is read as far as a reader needs it, among others that are read whole', async () => {
    const KiB = 1024;
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            fc.nat({ max: 600 }),
            fc.integer({ min: 250 * KiB, max: 262 * KiB }),
            fc.nat({ max: 700 * KiB })
          ),
          { minLength: 1, maxLength: 8 }
        ),
        fc.oneof(fc.nat({ max: 64 }), fc.nat({ max: 300 * KiB }), fc.constant(Infinity)),
        fc.integer({ min: 1, max: 8 }),
        (sizes, bytes, from) =>
          inTemporaryFolder(async dir => {
            await writeJournal(
              dir,
              sizes.map((size, n) => piece(String.fromCharCode(97 + n), size)),
              { segmentBytes: 1024 ** 2 }
            );
            const whole = await readAll(dir, from);
            const read: JournalRecord[] = [];
            for await (const record of new JournalReader(dir).read(from, { needed: () => bytes })) {
              read.push(record);
            }
            expect(read.map(({ seq, timeNs, channel }) => ({ seq, timeNs, channel }))).toEqual(
              whole.map(({ seq, timeNs, channel }) => ({ seq, timeNs, channel }))
            );
            for (const [n, { payload, isAbridged }] of read.entries()) {
              const expected = whole[n]!.payload;
              expect(payload.equals(isAbridged ? expected.subarray(0, bytes) : expected)).toBe(true);
              if (isAbridged) expect(expected.length).toBeGreaterThan(bytes);
              if (expected.length > 256 * KiB && bytes < 10 * KiB) expect(isAbridged).toBe(true);
            }
          })
      ),
      { numRuns: 40 }
    );
  });

  it('is not reported while it is still being written, and is reported as damaged if its number is wrong', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, [Buffer.from('small'), piece('x', 1024 ** 2), Buffer.from('small')]);
      const file = await open(join(dir, segmentFileName(1)), 'r+');
      const seqs = async (): Promise<number[]> => {
        const found: number[] = [];
        for await (const { seq } of new JournalReader(dir).read(1, { needed: () => 10 })) found.push(seq);
        return found;
      };
      expect(await seqs()).toEqual([1, 2, 3]);
      const { size } = await file.stat();
      await file.truncate(size - 40);
      expect(await seqs()).toEqual([1]);
      const [, large] = await offsetsOf(file);
      await file.write(Buffer.from([9]), 0, 1, large! + 8);
      await file.truncate(size);
      await expect(seqs()).rejects.toThrow(/numbered 9/);
      await file.close();
    });
  });
});

/** Where the records of a segment begin, from their lengths alone. */
async function offsetsOf(file: Awaited<ReturnType<typeof open>>): Promise<number[]> {
  const bytes = await file.readFile();
  const found: number[] = [];
  for (let at = SEGMENT_HEADER_BYTES; at + 8 < bytes.length; at += 8 + bytes.readUInt32LE(at)) found.push(at);
  return found;
}
