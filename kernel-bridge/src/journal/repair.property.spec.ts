import { appendFile, readdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crc32c, RECORD_OVERHEAD } from './record-codec.js';
import { JournalDamagedError } from './journal-error.js';
import { JournalReader } from './journal-reader.js';
import { JournalWriter } from './journal-writer.js';
import { gapOf } from './record.js';
import { listSegments, SEGMENT_HEADER_BYTES, segmentFileName } from './segment-file.js';
import { inTemporaryFolder, readAll, writeJournal, WriterLog } from './testing/journal-folder.js';

const payloads = fc.array(
  fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes)),
  { minLength: 1, maxLength: 20 }
);

const first = segmentFileName(1);

describe('a journal that was cut by a crash', { timeout: 120_000 }, () => {
  it('at any byte opens to a prefix of whole records, and continues from there', async () => {
    await fc.assert(
      fc.asyncProperty(payloads, fc.nat(), (written, place) =>
        inTemporaryFolder(async dir => {
          await writeJournal(dir, written);
          const file = join(dir, first);
          const whole = await readFile(file);
          const cut = place % (whole.length + 1);
          await truncate(file, cut);

          let end = SEGMENT_HEADER_BYTES;
          const survivors = written.filter(payload => (end += RECORD_OVERHEAD + payload.length) <= cut);
          const writer = await JournalWriter.open(dir, new WriterLog().options());
          expect(writer.lastSeq).toBe(survivors.length);
          writer.append(3, [Buffer.from('after')]);
          await writer.close();
          const expected = [...survivors, Buffer.from('after')];
          expect((await readAll(dir)).map(({ seq, payload }) => [seq, payload])).toEqual(
            expected.map((payload, index) => [index + 1, payload])
          );

          // The removed bytes are kept, byte for byte.
          const retained = (await readdir(dir)).filter(name => name.endsWith('.damaged'));
          const goodBytes = survivors.reduce(
            (sum, payload) => sum + RECORD_OVERHEAD + payload.length,
            SEGMENT_HEADER_BYTES
          );
          const torn = cut < SEGMENT_HEADER_BYTES ? whole.subarray(0, cut) : whole.subarray(goodBytes, cut);
          const found = await Promise.all(retained.map(name => readFile(join(dir, name))));
          expect(Buffer.concat(found)).toEqual(torn);
          expect(writer.cuts.map(({ damagedBytes }) => damagedBytes)).toEqual(
            retained.length === 0 ? [] : [torn.length]
          );
        })
      ),
      { numRuns: 60 }
    );
  });

  it('with any bit flipped opens to all earlier records, and to later ones if they can be recognised', async () => {
    await fc.assert(
      fc.asyncProperty(payloads, fc.nat(), fc.integer({ min: 0, max: 7 }), (written, place, bit) =>
        inTemporaryFolder(async dir => {
          await writeJournal(dir, written);
          const file = join(dir, first);
          const bytes = await readFile(file);
          const at = SEGMENT_HEADER_BYTES + (place % (bytes.length - SEGMENT_HEADER_BYTES));
          bytes[at]! ^= 1 << bit;
          await writeFile(file, bytes);

          let end = SEGMENT_HEADER_BYTES;
          const before = written.filter(payload => (end += RECORD_OVERHEAD + payload.length) <= at);
          const reader = new JournalReader(dir);
          const seen: Buffer[] = [];
          const reading = (async () => {
            for await (const record of reader.read(1)) {
              seen.push(record.payload);
            }
          })();
          // A length that exceeds the end of the file looks like a record that is still being written.
          await reading.catch((error: unknown) => {
            expect(error).toBeInstanceOf(JournalDamagedError);
            expect(error).toMatchObject({ code: 'journal_damaged', seq: before.length + 1, resumeSeq: null });
          });
          expect(seen).toEqual(before);

          const writer = await JournalWriter.open(dir, new WriterLog().options());
          await writer.close();
          expect(writer.cuts).toHaveLength(1);
          const left = await readAll(dir);
          if (writer.cuts[0]!.replacedSeq === null) {
            expect(left.map(({ payload }) => payload)).toEqual(before);
          } else {
            // All other records keep their numbers, and a gap record states that it replaces the damaged one.
            const gap = left[before.length]!;
            expect(gapOf(gap)).toMatchObject({ count: 1, fromSeq: gap.seq, toSeq: gap.seq });
            expect(left.map(({ payload }) => payload)).toEqual(
              written.map((payload, index) => (index === before.length ? gap.payload : payload))
            );
          }
          expect(writer.lastSeq).toBe(left.length);
          // The damaged bytes are kept.
          expect((await readdir(dir)).filter(name => name.endsWith('.damaged'))).toHaveLength(1);
        })
      ),
      { numRuns: 60 }
    );
  });
});

describe('repair', () => {
  const three = ['one', 'two', 'three'].map(text => Buffer.from(text));

  it('leaves an intact journal alone', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, three);
      const before = await readFile(join(dir, first));
      const writer = await JournalWriter.open(dir, new WriterLog().options());
      await writer.close();
      expect(writer.cuts).toEqual([]);
      expect(await readdir(dir)).toEqual([first]);
      expect(await readFile(join(dir, first))).toEqual(before);
    });
  });

  it("goes back to the previous segment if the last one's header was never finished", async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, three);
      await writeFile(join(dir, segmentFileName(4)), Buffer.from('half'));
      const writer = await JournalWriter.open(dir, new WriterLog().options());
      writer.append(3, [Buffer.from('four')]);
      await writer.close();
      expect((await readAll(dir)).map(({ payload }) => payload.toString())).toEqual([
        'one',
        'two',
        'three',
        'four'
      ]);
      expect(await readdir(dir)).toEqual([first, `${segmentFileName(4)}.0.damaged`]);
    });
  });

  it('keeps the files of an earlier repair', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, three);
      const { size } = await stat(join(dir, first));
      for (const rubbish of ['rubbish', 'other rubbish']) {
        await appendFile(join(dir, first), rubbish);
        await (await JournalWriter.open(dir, new WriterLog().options())).close();
      }
      const retained = [`${first}.${size}.damaged`, `${first}.${size}-2.damaged`];
      expect(await Promise.all(retained.map(name => readFile(join(dir, name), 'utf8')))).toEqual([
        'rubbish',
        'other rubbish'
      ]);
    });
  });

  it('replaces damaged records that are followed by whole ones with gaps, and continues after the last one', async () => {
    await inTemporaryFolder(async dir => {
      const long = ['one', 'two', 'three', 'four', 'five'].map(text => Buffer.from(text.padEnd(400, '.')));
      await writeJournal(dir, long);
      const file = join(dir, first);
      const bytes = await readFile(file);
      for (const text of ['two', 'four']) bytes[bytes.indexOf(`${text}.`)]! ^= 1;
      await writeFile(file, bytes);
      const writer = await JournalWriter.open(dir, new WriterLog().options());
      expect(writer.cuts.map(({ replacedSeq }) => replacedSeq)).toEqual([2, 4]);
      writer.append(3, [Buffer.from('six')]);
      await writer.close();
      const left = await readAll(dir);
      expect(
        left.map(record => gapOf(record)?.code ?? record.payload.toString().replace(/\.+$/, ''))
      ).toEqual(['one', 'journal_damaged', 'three', 'journal_damaged', 'five', 'six']);
    });
  });

  it('refuses a segment of a newer version and leaves it unchanged', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, three);
      const file = join(dir, first);
      const bytes = await readFile(file);
      await writeFile(file, setVersion(bytes, 3));
      await expect(JournalWriter.open(dir, new WriterLog().options())).rejects.toMatchObject({
        code: 'journal_version'
      });
      expect(await readFile(file)).toEqual(bytes);
    });
  });

  it('reads a segment of version 1, and continues in a new one', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, three);
      const file = join(dir, first);
      const bytes = setVersion(await readFile(file), 1);
      for (let at = SEGMENT_HEADER_BYTES; at < bytes.length; at += 8 + bytes.readUInt32LE(at)) {
        bytes.writeUInt32LE(crc32c(bytes, at + 8, at + 8 + bytes.readUInt32LE(at)), at + 4);
      }
      await writeFile(file, bytes);
      const writer = await JournalWriter.open(dir, new WriterLog().options());
      expect(writer.cuts).toEqual([]);
      writer.append(3, [Buffer.from('four')]);
      await writer.close();
      expect(await readFile(file)).toEqual(bytes);
      expect((await readAll(dir)).map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
      expect((await listSegments(dir)).map(({ firstSeq }) => firstSeq)).toEqual([1, 4]);
    });
  });
});

function setVersion(segment: Buffer, version: number): Buffer {
  segment.writeUInt32LE(version, 8);
  segment.writeUInt32LE(crc32c(segment, 0, 28), 28);
  return segment;
}
