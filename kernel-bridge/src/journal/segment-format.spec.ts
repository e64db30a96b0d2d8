import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { decodeRecord, probeRecord, RECORD_OVERHEAD, writeRecord } from './record-codec.js';
import { encodeSegmentHeader, segmentFileName, segmentHeaderFault } from './segment-file.js';
import { inTemporaryFolder, writeJournal } from './testing/journal-folder.js';

describe('a segment file', () => {
  it('has these bytes, as docs/journal.md specifies', async () => {
    vi.useFakeTimers({ now: 1_700_000_000_000, toFake: ['Date'] });
    try {
      await inTemporaryFolder(async dir => {
        await writeJournal(dir, [Buffer.from('abc')]);
        expect(await readdir(dir)).toEqual(['00000000000000000001.seg']);
        const bytes = await readFile(join(dir, '00000000000000000001.seg'));
        expect(bytes.toString('hex').match(/../g)?.join(' ')).toBe(
          [
            '89 54 50 55 4a 0d 0a 1a', // magic
            '02 00 00 00', // version
            '20 00 00 00', // bytes of the header
            '01 00 00 00 00 00 00 00', // first seq
            '00 00 00 00', // reserved
            '72 3a 5f 5c', // crc32c of the 28 bytes before
            '14 00 00 00', // length: 17 and the payload
            'ed ca 1c a7', // crc32 of the following bytes
            '01 00 00 00 00 00 00 00', // seq
            '00 00 2a 36 fe 9c 97 17', // unix ns
            '03', // channel
            '61 62 63'
          ].join(' ')
        );
      });
    } finally {
      vi.useRealTimers();
    }
  });

  it('is named so that names sort as numbers do', () => {
    const names = [1, 9, 10, 123_456_789, Number.MAX_SAFE_INTEGER].map(segmentFileName);
    expect(names.toSorted()).toEqual(names);
  });

  it('is refused, not repaired, if it has another version', () => {
    const header = encodeSegmentHeader(1);
    expect(segmentHeaderFault(header, 1)).toBeNull();
    expect(segmentHeaderFault(header, 2)).toMatch(/first record/);
    expect(segmentHeaderFault(header.subarray(0, 31), 1)).toMatch(/cut off/);
  });
});

describe('a record', () => {
  it('keeps numbers beyond 32 bits and the full precision of its time', () => {
    const target = Buffer.alloc(RECORD_OVERHEAD + 2);
    const seq = 2 ** 45 + 3;
    const timeNs = 1_792_000_000_123_456_789n;
    const end = writeRecord(target, 0, seq, timeNs, 0x83, [Buffer.from('a'), Buffer.from('b')]);
    expect(end).toBe(target.length);
    expect(probeRecord(target, 0)).toEqual({ kind: 'whole', end });
    expect(decodeRecord(target, 0, end)).toEqual({ seq, timeNs, channel: 0x83, payload: Buffer.from('ab') });
  });

  it('with an impossible length counts as damage, and a cut one as incomplete', () => {
    const target = Buffer.alloc(RECORD_OVERHEAD + 1);
    writeRecord(target, 0, 1, 1n, 3, [Buffer.from('a')]);
    for (let length = 0; length < target.length; length++) {
      expect(probeRecord(target.subarray(0, length), 0).kind).toBe('partial');
    }
    expect(probeRecord(Buffer.alloc(64), 0).kind).toBe('damaged');
    expect(probeRecord(Buffer.alloc(64, 0xff), 0).kind).toBe('damaged');
  });
});
