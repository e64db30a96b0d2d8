import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { JournalWriter, LARGE_BYTES } from './journal-writer.js';
import { FROM_CLIENT, RecordChannel } from './record.js';
import type { StoredRecord } from './record-batch.js';
import { segmentFileName } from './segment-file.js';
import { inTemporaryFolder, readAll, WriterLog } from './testing/journal-folder.js';

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

  it('is in the file before any callback, and so are the records before it', async () => {
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

  it('is in a batch like all others for a writer without a callback for them', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options());
      writer.append(RecordChannel.iopub, [piece('x', LARGE_BYTES)]);
      await vi.waitFor(() => expect(log.batches).toHaveLength(1), 20_000);
      await writer.close();
    });
  });
});
