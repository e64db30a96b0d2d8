import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { JournalReader, readTrimNotes } from '../journal/index.js';
import { writeJournal } from '../journal/testing/journal-folder.js';
import { processStart } from '@tpulab/platform/process-identity.js';
import {
  bytesOf,
  findJournals,
  forgetEnd,
  type JournalFolder,
  leaveJournal,
  readEnded
} from './journal-folders.js';
import { JournalSweeper, planRemovals, remove } from './journal-sweeper.js';

const DAY = 24 * 60 * 60 * 1000;
const NOW = Date.parse('2030-06-15T12:00:00Z');

let stateDir: string;

beforeEach(async () => {
  stateDir = await mkdtemp(path.join(tmpdir(), 'tpl-'));
});

afterEach(() => rm(stateDir, { recursive: true, force: true }));

const dirOf = (id: string): string => path.join(stateDir, 'kernels', id);

/** About 250 bytes per record, four records per segment. */
async function kernel(id: string, records: number, endedDaysAgo: number | null): Promise<void> {
  const lines = Array.from({ length: records }, (_, index) => Buffer.from(`line ${index}`.padEnd(200)));
  await writeJournal(path.join(dirOf(id), 'journal'), lines, { segmentBytes: 1_000 });
  if (endedDaysAgo !== null) {
    const endedAt = new Date(NOW - endedDaysAgo * DAY).toISOString();
    await leaveJournal(dirOf(id), { kernelId: id, specName: 'python3', endedAt, reason: 'shut down' });
    return;
  }
  // This process acts as the keeper.
  await writeFile(
    path.join(dirOf(id), 'keeper.json'),
    JSON.stringify({
      kernelId: id,
      pid: process.pid,
      processStart: await processStart(process.pid),
      kernelPid: null,
      kernelProcessStart: null,
      startedAt: new Date().toISOString(),
      socketPath: '/nowhere'
    })
  );
}

async function sweep(limits: { totalBytes?: number; retentionMs?: number }): Promise<void> {
  const journals = await findJournals(stateDir);
  for (const removal of planRemovals(
    journals,
    { totalBytes: Infinity, retentionMs: Infinity, ...limits },
    NOW
  )) {
    await remove(removal);
  }
}

const firstSeq = (id: string): Promise<number> =>
  new JournalReader(path.join(dirOf(id), 'journal')).firstSeq();

describe('retention', () => {
  it('removes the journals of kernels that ended long ago, and no others', async () => {
    await kernel('old', 10, 15);
    await kernel('recent', 10, 13);
    await kernel('running', 10, null);
    await sweep({ retentionMs: 14 * DAY });
    expect(await readdir(path.join(stateDir, 'kernels'))).toEqual(['recent', 'running']);
    expect(await firstSeq('recent')).toBe(1);
  });

  it('assumes that a kernel without a recorded end ended with its last record', async () => {
    await kernel('lost', 4, 1);
    await forgetEnd(dirOf('lost'));
    const [journal] = await findJournals(stateDir);
    expect(journal!.endedAt).toBe(journal!.segments.at(-1)!.writtenAt);
  });

  it('keeps all data of a kernel whose end is in the future, because the clock was set', async () => {
    await kernel('a', 10, -400);
    await sweep({ retentionMs: DAY });
    expect(await firstSeq('a')).toBe(1);
  });

  it('above the total removes from ended kernels first, in the order in which they ended', async () => {
    await kernel('ended-first', 20, 3);
    await kernel('ended-last', 20, 1);
    await kernel('running', 20, null);
    const total = (await findJournals(stateDir)).reduce((sum, each) => sum + bytesOf(each), 0);
    await sweep({ totalBytes: total - 1 });
    expect(await Promise.all(['ended-first', 'ended-last', 'running'].map(firstSeq))).toEqual([5, 1, 1]);
    expect(await readTrimNotes(path.join(dirOf('ended-first'), 'journal'))).toMatchObject([
      { code: 'journal_total_quota', from: 1, to: 4 }
    ]);
    await sweep({ totalBytes: Math.floor(total / 2) });
    expect(existsSync(dirOf('ended-first'))).toBe(false);
    expect(await firstSeq('ended-last')).toBeGreaterThan(1);
    expect(await firstSeq('running')).toBe(1);
  });

  it('leaves running kernels their newest segment, however small their quota', async () => {
    await kernel('ended', 20, 1);
    await kernel('running', 20, null);
    await sweep({ totalBytes: 0 });
    expect(await readdir(path.join(stateDir, 'kernels'))).toEqual(['running']);
    expect(await firstSeq('running')).toBe(17);
  });

  it('plans no more removals than necessary, and meets the total wherever possible', () => {
    const journal = fc
      .record({
        endedDaysAgo: fc.option(fc.integer({ min: 0, max: 30 })),
        sizes: fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 6 }),
        damaged: fc.nat(20),
        writtenAt: fc.nat(1000)
      })
      .map(({ endedDaysAgo, sizes, damaged, writtenAt }, index = 0): JournalFolder => ({
        kernelId: `k${index}`,
        kernelDir: '',
        journalDir: '',
        specName: null,
        elsewhere: null,
        endedAt: endedDaysAgo === null ? null : NOW - endedDaysAgo * DAY,
        segments: sizes.map((bytes, at) => ({
          file: `${at}`,
          firstSeq: at + 1,
          bytes,
          writtenAt: writtenAt + at
        })),
        damaged: { files: 1, bytes: damaged }
      }));
    fc.assert(
      fc.property(fc.array(journal, { maxLength: 8 }), fc.nat(2000), (journals, totalBytes) => {
        const retentionMs = 14 * DAY;
        const plan = planRemovals(journals, { totalBytes, retentionMs }, NOW);
        // No journal is planned twice.
        expect(new Set(plan.map(each => each.journal)).size).toBe(plan.length);
        const before = journals.reduce((sum, each) => sum + bytesOf(each), 0);
        const after = before - plan.reduce((sum, { bytes }) => sum + bytes, 0);
        for (const { journal: each, whole, segments, code } of plan) {
          if (each.endedAt === null) {
            expect(whole).toBe(false);
            expect(segments).toBeLessThan(each.segments.length);
          }
          if (code === 'journal_retention') expect(NOW - each.endedAt!).toBeGreaterThan(retentionMs);
        }
        const left = journals.filter(
          each => !plan.some(({ journal: ended, whole }) => whole && ended === each)
        );
        const sparing = left.every(each => each.endedAt === null);
        const isBare =
          sparing &&
          left.every(each => {
            const count = plan.find(({ journal: ended }) => ended === each)?.segments ?? 0;
            return count === each.segments.length - 1;
          });
        expect(after <= totalBytes || isBare).toBe(true);
        if (plan.some(({ journal: each }) => each.endedAt === null)) expect(sparing).toBe(true);
      }),
      { numRuns: 500 }
    );
  });
});

describe('the remaining data of a kernel that has ended', () => {
  it('is its journal and the output of its process, nothing that describes the process or its environment', async () => {
    await kernel('k', 2, null);
    for (const name of ['launch.json', 'positions', 'keeper.log', 'kernel.log']) {
      await writeFile(path.join(dirOf('k'), name), '{}');
    }
    const ended = {
      kernelId: 'k',
      specName: null,
      endedAt: new Date(NOW).toISOString(),
      reason: 'shut down'
    };
    await leaveJournal(dirOf('k'), ended);
    expect(await readdir(dirOf('k'))).toEqual(['ended.json', 'journal', 'kernel.log']);
    expect(await readEnded(dirOf('k'))).toEqual(ended);
  });

  it('is nothing, when it never sent anything', async () => {
    await mkdir(path.join(dirOf('k'), 'journal'), { recursive: true });
    await leaveJournal(dirOf('k'), { kernelId: 'k', specName: null, endedAt: '2030-01-01', reason: 'x' });
    expect(existsSync(dirOf('k'))).toBe(false);
  });
});

describe('the sweeper of a gateway', () => {
  it('spares journals that the gateway uses, and stops with the gateway', async () => {
    await kernel('used', 10, 3000);
    await kernel('unused', 10, 3000);
    const sweeper = new JournalSweeper({
      stateDir,
      limits: { totalBytes: Infinity, retentionMs: 0 },
      isInUse: id => id === 'used',
      log: pino({ level: 'silent' })
    });
    await Promise.all([sweeper.sweep(), sweeper.sweep()]);
    expect(await readdir(path.join(stateDir, 'kernels'))).toEqual(['used']);
    await sweeper[Symbol.asyncDispose]();
  });

  it('does not trust a clock that jumps ahead, and removes what stays too old', async () => {
    await kernel('k', 10, 1);
    let now = NOW;
    let elapsed = 0;
    await using sweeper = new JournalSweeper({
      stateDir,
      limits: { totalBytes: Infinity, retentionMs: 14 * DAY },
      isInUse: () => false,
      log: pino({ level: 'silent' }),
      clock: { now: () => now, elapsed: () => elapsed }
    });
    const lives = async (): Promise<boolean> => {
      await sweeper.sweep();
      return existsSync(dirOf('k'));
    };
    const pass = (ms: number): void => {
      now += ms;
      elapsed += ms;
    };
    const HOUR = DAY / 24;
    expect(await lives()).toBe(true);
    now += 3650 * DAY;
    expect(await lives()).toBe(true);
    pass(HOUR / 2);
    expect(await lives()).toBe(true);
    // The time server has answered, and later the clock is wrong again: the hour restarts.
    now -= 3650 * DAY;
    pass(HOUR);
    expect(await lives()).toBe(true);
    now += 3650 * DAY;
    expect(await lives()).toBe(true);
    pass(HOUR - 1);
    expect(await lives()).toBe(true);
    pass(1);
    expect(await lives()).toBe(false);
  });
});
