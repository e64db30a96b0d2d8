import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ProcessHost, thisHost } from './process-identity.js';
import { holderOf, LockHeldError, type ProcessLock, takeProcessLock } from './process-lock.js';

const ENDED = JSON.stringify({ pid: 2 ** 22 + 1, start: '1' });
let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-lock-'));
  file = path.join(folder, 'lock');
});

afterEach(() => rm(folder, { recursive: true, force: true }));

/** Starts many claims together; returns the locks that succeeded. */
async function race(claimants: number): Promise<ProcessLock[]> {
  const tries = await Promise.allSettled(Array.from({ length: claimants }, () => takeProcessLock(file)));
  for (const one of tries) if (one.status === 'rejected') expect(one.reason).toBeInstanceOf(LockHeldError);
  return tries.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []));
}

/** A holder on another machine, with the time of its last heartbeat. */
async function foreign(agoMs: number, host: Partial<ProcessHost> = {}): Promise<void> {
  const there = { name: 'login2', machine: 'another', boot: 'another', pidNamespace: 'pid:[1]', ...host };
  await writeFile(file, JSON.stringify({ pid: 7, start: 'another/1', host: there }));
  await beatAt(agoMs);
}

async function beatAt(agoMs: number): Promise<void> {
  const then = new Date(Date.now() - agoMs);
  await utimes(file, then, then);
}

// Pids of another machine or container identify other processes here.
describe('a process lock of another machine or container', () => {
  it('is held while its heartbeat is fresh, whichever way the clocks differ, and the refusal names the machine', async () => {
    for (const agoMs of [0, 50_000, -50_000]) {
      await foreign(agoMs);
      await expect(takeProcessLock(file)).rejects.toMatchObject({
        holder: { pid: 7, elsewhere: 'login2' },
        message: expect.stringContaining('process 7 on login2') as string
      });
      expect(await holderOf(file)).toMatchObject({ elsewhere: 'login2' });
    }
  });

  it('is held by another container of this machine, although a process here has its pid', async () => {
    const here = await thisHost();
    await foreign(0, { boot: here.boot, machine: here.machine });
    await expect(takeProcessLock(file)).rejects.toMatchObject({
      holder: { elsewhere: expect.stringContaining('another container') as string }
    });
  });

  it.each([
    ['an hour behind', 3_600_000],
    ['three days behind', 3 * 86_400_000],
    ['years ahead, as seen from a machine without a battery', -50 * 365 * 86_400_000]
  ])('is held when its clock is %s but it still beats', async (_what, offMs) => {
    await foreign(offMs);
    let agoMs = offMs;
    const beats = setInterval(() => void beatAt((agoMs -= 1_000)), 20);
    try {
      await expect(takeProcessLock(file, { watchMs: 2_000 })).rejects.toBeInstanceOf(LockHeldError);
    } finally {
      clearInterval(beats);
    }
  });

  it('is taken over when it is silent, and names the previous holder', async () => {
    await foreign(600_000);
    await using lock = await takeProcessLock(file, { watchMs: 50 });
    expect(lock.replaced).toMatchObject({ pid: 7, elsewhere: 'login2' });
    await expect(takeProcessLock(file)).rejects.toMatchObject({ holder: { pid: process.pid } });
  });

  it.skipIf(process.platform !== 'linux')('is free immediately after this machine was rebooted', async () => {
    const here = await thisHost();
    await foreign(600_000, { ...here, machine: here.machine || 'm', boot: 'earlier' });
    if (here.machine === '') return;
    await using lock = await takeProcessLock(file, { watchMs: 3_600_000 });
    expect(lock.replaced).toEqual({ pid: 7 });
  });
});

describe('a process lock', () => {
  it('is refused while a living process holds it, which is named', async () => {
    const lock = await takeProcessLock(file);
    await expect(takeProcessLock(file)).rejects.toMatchObject({
      code: 'lock_held',
      holder: { pid: process.pid }
    });
    expect(await holderOf(file)).toEqual({ pid: process.pid });
    await lock[Symbol.asyncDispose]();
    expect(await holderOf(file)).toBeNull();
    expect(await readdir(folder)).toEqual([]);
  });

  it.each([
    ['a process that has ended', ENDED],
    ['a process whose pid another one has now', JSON.stringify({ pid: process.pid, start: 'long ago' })],
    ['nobody, because it is half written', '{"pid": 1']
  ])('is taken over from %s, and leaves nothing when it is given back', async (_who, content) => {
    await writeFile(file, content);
    expect(await holderOf(file)).toBeNull();
    const lock = await takeProcessLock(file);
    expect(await holderOf(file)).toEqual({ pid: process.pid });
    await lock[Symbol.asyncDispose]();
    expect(await readdir(folder)).toEqual([]);
  });

  it('is given to only one of many claimants when it is free', async () => {
    expect(await race(16)).toHaveLength(1);
  });

  it('is given to only one of many claimants when it is stale, again and again', async () => {
    for (let round = 0; round < 40; round++) {
      await writeFile(file, ENDED);
      const taken = await race(12);
      expect(taken).toHaveLength(1);
      await taken[0]?.[Symbol.asyncDispose]();
      expect(await readdir(folder)).toEqual([]);
    }
  });

  it('never has two holders while many claim and release it', async () => {
    await writeFile(file, ENDED);
    let holders = 0;
    let most = 0;
    const claimant = async (): Promise<void> => {
      for (let turn = 0; turn < 20; turn++) {
        try {
          const lock = await takeProcessLock(file);
          most = Math.max(most, ++holders);
          await holderOf(file);
          holders--;
          await lock[Symbol.asyncDispose]();
        } catch (error) {
          expect(error).toBeInstanceOf(LockHeldError);
        }
      }
    };
    await Promise.all(Array.from({ length: 8 }, claimant));
    expect(most).toBe(1);
  });
});
