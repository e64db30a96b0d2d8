import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { JOURNAL_LIMITS, segmentBytesFor } from './journal-limits.js';
import { JournalReader } from './journal-reader.js';
import {
  measureSegments,
  readTrimNotes,
  segmentsOver,
  TRIM_NOTES_FILE,
  trimSegments
} from './journal-trim.js';
import { JournalWriter } from './journal-writer.js';
import { gapOf, type JournalRecord } from './record.js';
import { segmentFileName } from './segment-file.js';
import { inTemporaryFolder, writeJournal, WriterLog } from './testing/journal-folder.js';

const line = (index: number): Buffer => Buffer.from(`line ${index}`.padEnd(200));
const lines = (count: number): Buffer[] => Array.from({ length: count }, (_, index) => line(index));

async function bytesOf(dir: string): Promise<number> {
  return (await measureSegments(dir)).reduce((sum, { bytes }) => sum + bytes, 0);
}

async function across(dir: string, from: number): Promise<JournalRecord[]> {
  const records: JournalRecord[] = [];
  for await (const batch of new JournalReader(dir).readAcross(from)) records.push(...batch);
  return records;
}

describe('the quota of a journal', { timeout: 60_000 }, () => {
  it('is kept while the kernel prints, by removing the oldest segments', async () => {
    await inTemporaryFolder(async dir => {
      const trims: { from: number; to: number }[] = [];
      const writer = await JournalWriter.open(
        dir,
        new WriterLog().options({ maxBytes: 8_000, segmentBytes: 1_000, onTrimmed: trim => trims.push(trim) })
      );
      for (let index = 0; index < 300; index++) {
        writer.append(3, [line(index)]);
        await turn();
      }
      await writer.close();
      expect(await bytesOf(dir)).toBeLessThanOrEqual(8_000);
      expect(await bytesOf(dir)).toBeGreaterThan(4_000);
      // Each trim begins where the previous one ended.
      expect(trims[0]!.from).toBe(1);
      for (const [index, trim] of trims.entries()) {
        expect(trim.from).toBe(index === 0 ? 1 : trims[index - 1]!.to + 1);
      }
      const retained = await new JournalReader(dir).firstSeq();
      expect(retained).toBe(trims.at(-1)!.to + 1);
      const [gap, ...rest] = await across(dir, 1);
      expect(gapOf(gap!)).toMatchObject({
        code: 'journal_quota',
        fromSeq: 1,
        toSeq: retained - 1,
        count: retained - 1
      });
      expect(rest.map(({ payload }) => payload)).toEqual(lines(300).slice(retained - 1));
    });
  });

  it('takes effect immediately when a journal is opened with a smaller quota', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(60), { segmentBytes: 1_000 });
      const before = await bytesOf(dir);
      await (
        await JournalWriter.open(dir, new WriterLog().options({ maxBytes: 6_000, segmentBytes: 1_000 }))
      ).close();
      expect(before).toBeGreaterThan(6_000);
      expect(await bytesOf(dir)).toBeLessThanOrEqual(6_000);
    });
  });

  it('never removes the newest segment, whatever its size', async () => {
    await inTemporaryFolder(async dir => {
      const writer = await JournalWriter.open(
        dir,
        new WriterLog().options({ maxBytes: 100, segmentBytes: 50 })
      );
      for (let index = 0; index < 5; index++) {
        writer.append(3, [line(index)]);
        await turn();
      }
      await writer.close();
      expect((await across(dir, 5)).map(({ payload }) => payload)).toEqual([line(4)]);
    });
  });

  it('by default is two gibibytes in segments of 64 MiB, and small quotas have small segments', () => {
    expect(JOURNAL_LIMITS.kernelBytes).toBe(2 * 1024 ** 3);
    expect(segmentBytesFor(JOURNAL_LIMITS.kernelBytes)).toBe(64 * 1024 ** 2);
    expect(segmentBytesFor(8 * 1024 ** 2)).toBe(1024 ** 2);
    expect(segmentsOver([], 0)).toBe(0);
  });
});

describe('trimming a journal', { timeout: 60_000 }, () => {
  it('notes the reason before the removal, and joins notes of the same kind', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(30), { segmentBytes: 1_000 });
      expect(await trimSegments(dir, 1, 'journal_quota', 1)).toMatchObject({ from: 1, to: 4, segments: 1 });
      expect(await trimSegments(dir, 1, 'journal_quota', 2)).toMatchObject({ from: 5, to: 8 });
      expect(await trimSegments(dir, 2, 'journal_pruned', 3)).toMatchObject({ from: 9, to: 16 });
      expect(await readTrimNotes(dir)).toEqual([
        { code: 'journal_quota', from: 1, to: 8, at: 2 },
        { code: 'journal_pruned', from: 9, to: 16, at: 3 }
      ]);
      // A reader in the middle of the removed range is notified only of its own missing records.
      expect(gapOf((await across(dir, 6))[0]!)).toMatchObject({
        code: 'journal_pruned',
        fromSeq: 6,
        toSeq: 16
      });
      expect(gapOf((await across(dir, 17))[0]!)).toBeNull();
    });
  });

  it('removes a segment together with its damaged bytes, which a repair had kept', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(12), { segmentBytes: 1_000 });
      const old = `${segmentFileName(1)}.500.damaged`;
      const recent = `${segmentFileName(9)}.500-2.damaged`;
      await Promise.all([old, recent].map(name => writeFile(join(dir, name), 'x')));
      await trimSegments(dir, 1, 'journal_pruned');
      const left = await readdir(dir);
      expect(left).not.toContain(old);
      expect(left).toContain(recent);
    });
  });

  it('shows the gap even when the note is lost or damaged', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(30), { segmentBytes: 1_000 });
      await trimSegments(dir, 2, 'journal_quota');
      for (const spoil of [
        () => writeFile(join(dir, TRIM_NOTES_FILE), '{"version":1,"trimmed":[{"fro'),
        () => rm(join(dir, TRIM_NOTES_FILE))
      ]) {
        await spoil();
        expect(gapOf((await across(dir, 1))[0]!)).toMatchObject({
          code: 'journal_trimmed',
          count: 8,
          toSeq: 8
        });
      }
    });
  });

  it('does not disturb a reader in the middle of the removed range', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(40), { segmentBytes: 1_000 });
      const seen: number[] = [];
      const gaps: unknown[] = [];
      for await (const batch of new JournalReader(dir).readAcross(1)) {
        for (const record of batch) {
          const gap = gapOf(record);
          if (gap === null) seen.push(record.seq);
          else gaps.push([gap.fromSeq, gap.toSeq]);
        }
        if (gaps.length === 0 && seen.at(-1) === 4) await trimSegments(dir, 3, 'journal_quota');
      }
      expect(gaps).toEqual([[5, 12]]);
      expect(seen).toEqual([1, 2, 3, 4, ...Array.from({ length: 28 }, (_, index) => 13 + index)]);
    });
  });

  it('removes segments even if its note cannot be written, to free a full disk', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, lines(30), { segmentBytes: 1_000 });
      // A folder at the note's path makes writing it fail, as a full disk would.
      await mkdir(join(dir, TRIM_NOTES_FILE, 'x'), { recursive: true });
      await expect(trimSegments(dir, 2, 'journal_quota')).rejects.toThrow('directory');
      expect(await new JournalReader(dir).firstSeq()).toBe(9);
      expect((await readdir(dir)).filter(name => name.endsWith('.tmp'))).toEqual([]);
    });
  });
});
