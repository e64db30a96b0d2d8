import {
  readdirSync,
  type fdatasync as Fdatasync,
  type openSync as OpenSync,
  type rmSync as RmSync,
  type writeSync as WriteSync,
  type writevSync as WritevSync
} from 'node:fs';
import { appendFile, readdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import type { open as Open, unlink as Unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { JournalWriter } from './journal-writer.js';
import { gapOf, RecordChannel } from './record.js';
import { segmentFileName } from './segment-file.js';
import { inTemporaryFolder, readAll, WriterLog, writeJournal } from './testing/journal-folder.js';

/** How many more bytes the disk accepts. */
let room = Infinity;
let failure = 'ENOSPC';

/** The disk accepts bytes, but does not make them durable. */
let isUnsyncable = false;
/** How many syncs fail, after which the pages count as written, as on a real system. */
let syncFailures = 0;

/** Files cannot be removed. */
let isUnremovable = false;

function refuseRemoving(file: unknown): void {
  if (isUnremovable && String(file).endsWith('.seg'))
    throw Object.assign(new Error('EIO: i/o error, unlink'), { code: 'EIO' });
}

/** Root ignores permissions, so calls that open a file for writing are refused instead. */
let isReadOnly = false;

function refuseWriting(flags: string): void {
  if (isReadOnly && flags !== 'r') {
    throw Object.assign(new Error('EROFS: read-only file system, open'), { code: 'EROFS' });
  }
}

vi.mock('node:fs/promises', async importOriginal => {
  const fs = await importOriginal<{ open: typeof Open; unlink: typeof Unlink }>();
  return {
    ...fs,
    unlink: async (file: Parameters<typeof Unlink>[0]) => {
      refuseRemoving(file);
      await fs.unlink(file);
    },
    open: (...args: Parameters<typeof Open>) => {
      refuseWriting(String(args[1] ?? 'r'));
      return fs.open(...args);
    }
  };
});

vi.mock('node:fs', async importOriginal => {
  const fs = await importOriginal<{
    writeSync: typeof WriteSync;
    writevSync: typeof WritevSync;
    openSync: typeof OpenSync;
    fdatasync: typeof Fdatasync;
    rmSync: typeof RmSync;
  }>();
  return {
    ...fs,
    fdatasync: (fd: number, done: (error: Error | null) => void): void => {
      if (isUnsyncable || syncFailures-- > 0)
        setImmediate(done, Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' }));
      else fs.fdatasync(fd, done);
    },
    rmSync: (...args: Parameters<typeof RmSync>): void => {
      refuseRemoving(args[0]);
      fs.rmSync(...args);
    },
    writevSync: (fd: number, pieces: readonly Buffer[], position: number): number => {
      const bytes = Buffer.concat(pieces);
      const fits = Math.min(bytes.length, room);
      if (fits === 0) {
        throw Object.assign(new Error(`${failure}: no space left on device, writev`), { code: failure });
      }
      room -= fits;
      return fs.writeSync(fd, bytes, 0, fits, position);
    },
    openSync: (...args: Parameters<typeof OpenSync>): number => {
      refuseWriting(String(args[1]));
      return fs.openSync(...args);
    },
    // A full disk accepts as many bytes as fit, and fails at the next write.
    writeSync: (fd: number, buffer: Buffer, offset: number, length: number, position: number): number => {
      const fits = Math.min(length, room);
      if (fits === 0) {
        throw Object.assign(new Error(`${failure}: no space left on device, write`), { code: failure });
      }
      room -= fits;
      return fs.writeSync(fd, buffer, offset, fits, position);
    }
  };
});

afterEach(() => {
  room = Infinity;
  failure = 'ENOSPC';
  isReadOnly = false;
  isUnsyncable = false;
  isUnremovable = false;
  syncFailures = 0;
});

const segments = (dir: string): number[] =>
  readdirSync(dir)
    .filter(name => name.endsWith('.seg'))
    .map(name => Number(name.slice(0, -4)));

const line = (index: number): Buffer => Buffer.from(`line ${index}`.padEnd(100));

async function flipByte(file: string, at: number): Promise<void> {
  const bytes = await readFile(file);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 0xff, at);
  await writeFile(file, bytes);
}

describe('a journal on a full disk', { timeout: 60_000 }, () => {
  it('buffers messages that fit into memory, and loses nothing when there is room again in time', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options({ retryMs: 1 }));
      writer.append(3, [line(0)]);
      await turn();
      room = 50; // the next record is torn in the middle
      for (let index = 1; index < 200; index++) {
        writer.append(3, [line(index)]);
      }
      await turn();
      expect(log.faults).toMatchObject([{ code: 'journal_disk_full' }]);
      expect(writer.lastSeq).toBe(1);
      expect((await readAll(dir)).map(({ seq }) => seq)).toEqual([1]);

      room = Infinity;
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      await writer.close();
      const records = await readAll(dir);
      expect(records.map(({ payload }) => payload)).toEqual(
        Array.from({ length: 200 }, (_, index) => line(index))
      );
      expect(log.batches.map(({ firstSeq }) => firstSeq)).toEqual(
        log.batches.map(({ firstSeq }) => firstSeq).toSorted((a, b) => a - b)
      );
    });
  });

  it('that accepts bytes but cannot sync them is reported once, and no longer once they are synced, without another write', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      await using writer = await JournalWriter.open(dir, log.options());
      isUnsyncable = true;
      writer.append(3, [line(0)]);
      await vi.waitFor(() => expect(log.faults).toMatchObject([{ code: 'journal_write_failed' }]), 20_000);
      writer.append(3, [line(1)], { durable: true });
      await expect(writer.sync()).rejects.toMatchObject({ code: 'journal_write_failed' });
      isUnsyncable = false;
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      expect(log.faults).toHaveLength(2);
    });
  });

  it('leaves nothing of a large record that did not fit, so that the file reads as whole', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const options = { ...log.options({ retryMs: 1, heldBytes: 10_000 }), onStored: () => undefined };
      const writer = await JournalWriter.open(dir, options);
      writer.append(3, [line(0)]);
      await turn();
      room = 500_000;
      writer.append(3, [Buffer.alloc(2_000_000, 1)]);
      const readMeanwhile = await readAll(dir);
      room = Infinity;
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      writer.append(3, [line(1)]);
      await writer.close();

      expect(readMeanwhile).toHaveLength(1);
      const records = await readAll(dir);
      expect(records.map(({ channel }) => channel)).toEqual([3, RecordChannel.bridge, 3]);
      const [segment] = (await readdir(dir)).filter(name => name.endsWith('.seg'));
      expect((await stat(join(dir, segment!))).size).toBeLessThan(10_000);
    });
  });

  it('calls back for a request if the disk becomes full while it is written', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options({ retryMs: 1 }));
      room = 0;
      const sent: string[] = [];
      // More than a batch fits: appending the second one writes the first, and that write fails.
      writer.append(3, [Buffer.alloc(200_000)]);
      writer.append(0, [Buffer.alloc(200_000)], { essential: true, after: () => sent.push('request') });
      await turn();
      expect(log.faults).toMatchObject([{ code: 'journal_disk_full' }]);
      expect(sent).toEqual(['request']);
      room = Infinity;
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      await writer.close();
      expect((await readAll(dir)).map(({ channel }) => channel)).toEqual([3, 0]);
      expect(sent).toEqual(['request']);
    });
  });

  it('counts messages that do not fit, keeps those that clients wait for, and reports the gap once', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options({ retryMs: 1, heldBytes: 10_000 }));
      writer.append(3, [line(0)]);
      await turn();
      room = 0;
      for (let index = 1; index <= 100; index++) {
        writer.append(3, [line(index)]);
      }
      writer.append(0, [Buffer.from('reply')], { essential: true });
      await turn();
      room = Infinity;
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      writer.append(3, [line(101)]);
      await writer.close();

      const records = await readAll(dir);
      expect(records.map(({ seq }) => seq)).toEqual(records.map((_, index) => index + 1));
      const gapAt = records.findIndex(({ channel }) => channel === RecordChannel.bridge);
      const gap = JSON.parse(records[gapAt]!.payload.toString()) as Record<string, unknown>;
      const lines = records.filter(({ channel }) => channel === 3).map(({ payload }) => payload.toString());
      expect(gap).toMatchObject({ type: 'gap', code: 'journal_disk_full', count: 102 - lines.length });
      expect(lines.length).toBeLessThan(90);
      expect(lines).toEqual([
        ...Array.from({ length: lines.length - 1 }, (_, index) => String(line(index))),
        String(line(101))
      ]);
      expect(records[gapAt - 1]!.payload.toString()).toBe('reply');
      expect(records.filter(({ channel }) => channel === RecordChannel.bridge)).toHaveLength(1);
    });
  });

  it('passes requests to the kernel immediately while it cannot write', async () => {
    await inTemporaryFolder(async dir => {
      const writer = await JournalWriter.open(dir, new WriterLog().options({ retryMs: 1 }));
      room = 0;
      const sent: string[] = [];
      writer.append(0x80, [Buffer.from('a')], { after: () => sent.push('a'), essential: true });
      await turn();
      expect(sent).toEqual(['a']);
      writer.append(0x80, [Buffer.from('b')], { after: () => sent.push('b'), essential: true });
      expect(sent).toEqual(['a', 'b']);
      room = Infinity;
      await writer.close();
      expect(sent).toEqual(['a', 'b']);
      expect((await readAll(dir)).map(({ payload }) => payload.toString())).toEqual(['a', 'b']);
    });
  });

  it('reports missing records when it is closed', async () => {
    await inTemporaryFolder(async dir => {
      failure = 'EIO';
      const writer = await JournalWriter.open(dir, new WriterLog().options());
      room = 0;
      writer.append(3, [line(0)]);
      await expect(writer.close()).rejects.toMatchObject({ code: 'journal_write_failed' });
      room = Infinity;
      const again = await JournalWriter.open(dir, new WriterLog().options());
      expect(again.lastSeq).toBe(0);
      await again.close();
    });
  });
});

describe('a journal whose folder becomes read-only', { timeout: 60_000 }, () => {
  it('continues in its open segment, buffers records that need another one, and loses nothing when the folder is writable in time', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options({ segmentBytes: 500, retryMs: 1 }));
      writer.append(3, [line(0)]);
      await turn();
      isReadOnly = true;
      for (let index = 1; index < 20; index++) {
        writer.append(3, [line(index)]);
        await turn();
      }
      expect(log.faults).toMatchObject([{ code: 'journal_write_failed' }]);
      expect(writer.lastSeq).toBeGreaterThan(1);
      expect(writer.lastSeq).toBeLessThan(20);
      isReadOnly = false;
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      await writer.close();
      expect((await readAll(dir)).map(({ payload }) => payload)).toEqual(
        Array.from({ length: 20 }, (_, index) => line(index))
      );
    });
  });

  it.each([
    ['whole', ''],
    ['torn', 'the beginning of a record']
  ])('is still opened when its end is %s, and written as soon as possible', async (_what, tail) => {
    await inTemporaryFolder(async dir => {
      const before = await JournalWriter.open(dir, new WriterLog().options());
      before.append(3, [line(0)]);
      await before.close();
      await appendFile(join(dir, (await readdir(dir))[0]!), tail);

      isReadOnly = true;
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options({ retryMs: 1 }));
      expect(log.faults).toMatchObject([{ code: 'journal_write_failed' }]);
      expect(writer.lastSeq).toBe(1);
      const sent: string[] = [];
      writer.append(0x80, [line(1)], { after: () => sent.push('to the kernel'), essential: true });
      expect(sent).toEqual(['to the kernel']);
      isReadOnly = false;
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      await writer.close();
      expect((await readAll(dir)).map(({ seq, payload }) => [seq, payload])).toEqual([
        [1, line(0)],
        [2, line(1)]
      ]);
      expect(writer.cuts).toHaveLength(tail === '' ? 0 : 1);
    });
  });

  it('numbers buffered records after those that follow a damaged one', async () => {
    await inTemporaryFolder(async dir => {
      await writeJournal(dir, [line(0), Buffer.alloc(400, 'x'), line(2), line(3)]);
      await flipByte(join(dir, (await readdir(dir))[0]!), 400);

      isReadOnly = true;
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options({ retryMs: 1 }));
      expect(writer.lastSeq).toBe(4);
      writer.append(3, [line(4)]);
      isReadOnly = false;
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      await writer.close();
      const records = await readAll(dir);
      expect(records.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5]);
      expect(gapOf(records[1]!)).toMatchObject({ code: 'journal_damaged', fromSeq: 2, toSeq: 2 });
      expect(records[4]!.payload).toEqual(line(4));
    });
  });

  it('is reported as incomplete when it never becomes writable', async () => {
    await inTemporaryFolder(async dir => {
      const before = await JournalWriter.open(dir, new WriterLog().options());
      before.append(3, [line(0)]);
      await before.close();
      isReadOnly = true;
      const writer = await JournalWriter.open(dir, new WriterLog().options({ retryMs: 1 }));
      writer.append(3, [line(1)]);
      await expect(writer.close()).rejects.toMatchObject({ code: 'journal_write_failed' });
    });
  });
});

describe('a journal on a disk that was full', { timeout: 60_000 }, () => {
  it('begins its next segment when there is room, and leaves no incomplete one', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options({ segmentBytes: 300, retryMs: 1 }));
      writer.append(3, [line(0)]);
      writer.append(3, [line(1)]);
      await turn();
      room = 10; // a part of the header of the next segment
      writer.append(3, [line(2)]);
      await turn();
      expect(log.faults).toMatchObject([{ code: 'journal_disk_full' }]);
      // Without waiting: another attempt, which creates and removes the file in one turn, could be seen half-way.
      expect(readdirSync(dir).filter(name => name.endsWith('.seg'))).toHaveLength(1);
      room = Infinity;
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      await writer.close();
      expect((await readAll(dir)).map(({ payload }) => payload)).toEqual([line(0), line(1), line(2)]);
    });
  });
});

// These cover what a failed sync, a failed removal and an incomplete segment leave behind.
describe('a journal on a disk that fails once', { timeout: 60_000 }, () => {
  it('rewrites records that a failed sync may have lost, into another segment, although the next sync succeeds', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      await using writer = await JournalWriter.open(dir, log.options());
      writer.append(3, [line(0)]);
      await writer.sync();
      syncFailures = 1;
      writer.append(3, [line(1)]);
      await vi.waitFor(() => expect(log.faults).toHaveLength(2), 20_000);
      expect(log.faults[0]).toMatchObject({
        code: 'journal_write_failed',
        message: expect.stringContaining('records from 2 on may be missing') as string
      });
      expect(log.faults[1]).toBeNull();
      expect(segments(dir)).toEqual([1, 2]);
      // After a power loss, the first file has its synced bytes, followed by zeros.
      const first = join(dir, segmentFileName(1));
      await truncate(first, (await stat(first)).size - 1);
      writer.append(3, [line(2)]);
      await writer.sync();
      expect((await readAll(dir)).map(({ payload }) => payload)).toEqual([line(0), line(1), line(2)]);
      expect(segments(dir)).toEqual([1, 2]);
    });
  });

  it('reports records at risk as long as no sync succeeds, and recreates the segment that was never synced', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options());
      isUnsyncable = true;
      for (let index = 0; index < 20; index++) writer.append(3, [line(index)]);
      await expect(writer.sync()).rejects.toMatchObject({ code: 'journal_write_failed' });
      expect(log.faults).toHaveLength(1);
      expect(log.faults[0]?.message).toContain('records from 1 on');
      writer.append(3, [line(20)]);
      isUnsyncable = false;
      await writer.sync();
      expect(log.faults.at(-1)).toBeNull();
      await writer.close();
      expect(segments(dir)).toEqual([1]);
      expect((await readdir(dir)).filter(name => name.includes('rewritten'))).toEqual([]);
      expect((await readAll(dir)).map(({ payload }) => payload)).toEqual(
        Array.from({ length: 21 }, (_, index) => line(index))
      );
    });
  });

  it('rewrites the end of a segment whose last sync failed after the next one had begun', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      await using writer = await JournalWriter.open(dir, log.options({ segmentBytes: 2_000 }));
      for (let index = 0; index < 8; index++) writer.append(3, [line(index)]);
      await writer.sync();
      isUnsyncable = true;
      for (let index = 8; index < 40; index++) {
        writer.append(3, [line(index)]);
        await turn();
      }
      await vi.waitFor(() => expect(log.faults.length).toBeGreaterThan(0), 20_000);
      isUnsyncable = false;
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      expect((await readAll(dir)).map(({ seq }) => seq)).toEqual(
        Array.from({ length: 40 }, (_, index) => index + 1)
      );
    });
  });

  it('clears a fault in removing old segments once they have been removed', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      await using writer = await JournalWriter.open(
        dir,
        log.options({ segmentBytes: 1_000, maxBytes: 3_000 })
      );
      isUnremovable = true;
      for (let index = 0; index < 60; index++) {
        writer.append(3, [line(index)]);
        await turn();
      }
      await vi.waitFor(
        () => expect(log.faults.at(-1)).toMatchObject({ code: 'journal_write_failed' }),
        20_000
      );
      expect(log.faults.at(-1)?.message).toContain('removing old segments');
      isUnremovable = false;
      for (let index = 60; index < 90; index++) {
        writer.append(3, [line(index)]);
        await turn();
      }
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      expect(writer.lastSeq).toBe(90);
    });
  });

  it('continues in a segment that was left without a header, because the disk refused to write and to remove it', async () => {
    await inTemporaryFolder(async dir => {
      const log = new WriterLog();
      const writer = await JournalWriter.open(dir, log.options({ retryMs: 1 }));
      room = 0;
      isUnremovable = true;
      failure = 'EIO';
      writer.append(3, [line(0)]);
      await vi.waitFor(() => expect(log.faults).toMatchObject([{ code: 'journal_write_failed' }]), 20_000);
      expect(log.faults[0]?.message).toContain('EIO');
      expect((await stat(join(dir, segmentFileName(1)))).size).toBe(0);
      room = Infinity;
      await vi.waitFor(() => expect(log.faults.at(-1)).toBeNull(), 20_000);
      await writer.close();
      expect((await readAll(dir)).map(({ payload }) => payload)).toEqual([line(0)]);
    });
  });
});
