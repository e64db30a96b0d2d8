import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { holderOf, LockHeldError, type ProcessLock, takeProcessLock } from './process-lock.js';

const GONE = JSON.stringify({ pid: 2 ** 22 + 1, start: '1' });
let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-lock-'));
  file = path.join(folder, 'lock');
});

afterEach(() => rm(folder, { recursive: true, force: true }));

/** Many takers at once, as the locks that were taken. */
async function race(takers: number): Promise<ProcessLock[]> {
  const tries = await Promise.allSettled(Array.from({ length: takers }, () => takeProcessLock(file)));
  for (const one of tries) if (one.status === 'rejected') expect(one.reason).toBeInstanceOf(LockHeldError);
  return tries.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []));
}

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
    ['a process that has ended', GONE],
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

  it('is given to one only when many want a free one', async () => {
    expect(await race(16)).toHaveLength(1);
  });

  it('is given to one only when many find a stale one, again and again', async () => {
    for (let round = 0; round < 40; round++) {
      await writeFile(file, GONE);
      const taken = await race(12);
      expect(taken).toHaveLength(1);
      await taken[0]?.[Symbol.asyncDispose]();
      expect(await readdir(folder)).toEqual([]);
    }
  });

  it('never has two holders while it is taken and given back by many', async () => {
    await writeFile(file, GONE);
    let holders = 0;
    let most = 0;
    const taker = async (): Promise<void> => {
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
    await Promise.all(Array.from({ length: 8 }, taker));
    expect(most).toBe(1);
  });
});
