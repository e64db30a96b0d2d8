import { readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JournalReader } from './journal-reader.js';
import { segmentFileName } from './segment-file.js';
import { indexFileName, readStoredIndex } from './stored-index.js';
import { inTemporaryFolder, readAll, writeJournal } from './testing/journal-folder.js';

const COUNT = 8_000;
const lines = (count: number): Buffer[] =>
  Array.from({ length: count }, (_, index) => Buffer.from(`line ${index}`.padEnd(200 + (index % 7) * 40)));
const index = indexFileName(1);

async function seek(dir: string, from: number): Promise<[number, string]> {
  for await (const { seq, payload } of new JournalReader(dir).read(from, { to: from })) {
    return [seq, payload.toString().trimEnd()];
  }
  return [0, ''];
}

describe('the index beside a segment', { timeout: 120_000 }, () => {
  it('has an entry about every 256 KiB, each at the beginning of the record that it names', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(COUNT));
      const entries = await readStoredIndex(dir, 1);
      const { size } = await stat(join(dir, segmentFileName(1)));
      expect(entries.length).toBeGreaterThan(size / (256 * 1024) / 2);
      const bytes = await readFile(join(dir, segmentFileName(1)));
      for (const { seq, offset } of entries) expect(bytes.readBigUInt64LE(offset + 8)).toBe(BigInt(seq));
      expect((await stat(join(dir, index))).mode & 0o777).toBe(0o600);
    });
  });

  it('does not change the result of reading, whatever its contents', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(COUNT));
      const good = await readFile(join(dir, index));
      const spoil = fc.oneof(
        fc.constant(Buffer.alloc(0)),
        fc.uint8Array({ maxLength: 200 }).map(bytes => Buffer.from(bytes)),
        fc.nat(good.length).map(length => good.subarray(0, length)),
        fc.tuple(fc.nat(good.length - 1), fc.nat(255)).map(([at, byte]) => {
          const copy = Buffer.from(good);
          copy[at] = byte;
          return copy;
        })
      );
      await fc.assert(
        fc.asyncProperty(spoil, fc.integer({ min: 1, max: COUNT }), async (bytes, from) => {
          await writeFile(join(dir, index), bytes);
          expect(await seek(dir, from)).toEqual([from, `line ${from - 1}`]);
          expect(await new JournalReader(dir).lastSeq()).toBe(COUNT);
        }),
        { numRuns: 60 }
      );
    });
  });

  it('is shortened with a cut segment, and continues with it', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(COUNT));
      const segment = join(dir, segmentFileName(1));
      const { size } = await stat(segment);
      await truncate(segment, Math.floor(size / 3));
      const before = (await readStoredIndex(dir, 1)).length;
      // Of other sizes, so that offsets of the old entries are wrong now.
      const others = Array.from({ length: COUNT }, (_, at) => Buffer.from(`other ${at}`.padEnd(333)));
      await writeJournal(dir, others);
      const entries = await readStoredIndex(dir, 1);
      expect(entries.length).not.toBe(before);
      const last = (await readAll(dir)).at(-1)!.seq;
      for (const from of [1, Math.floor(last / 2), last]) expect((await seek(dir, from))[0]).toBe(from);
      const bytes = await readFile(segment);
      for (const { seq, offset } of entries) expect(bytes.readBigUInt64LE(offset + 8)).toBe(BigInt(seq));
    });
  });

  it('may be missing, and the journal is written and read as usual', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(2_000));
      await rm(join(dir, index));
      await writeJournal(dir, lines(2_000));
      expect(await seek(dir, 3_999)).toEqual([3_999, 'line 1998']);
      await rm(join(dir, index), { force: true });
      expect(await readAll(dir)).toHaveLength(4_000);
    });
  });
});
