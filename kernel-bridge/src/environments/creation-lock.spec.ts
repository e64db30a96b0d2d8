import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CreationLock, isLocked, lockFileOf } from './creation-lock.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-lock-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe('the lock of an environment', () => {
  it('is refused while a living process holds it, which is named', async () => {
    const lock = await CreationLock.take(folder, 'jax');
    await expect(CreationLock.take(folder, 'jax')).rejects.toMatchObject({
      code: 'env_in_use',
      message: expect.stringContaining(String(process.pid)) as string
    });
    await lock[Symbol.asyncDispose]();
    await (await CreationLock.take(folder, 'jax'))[Symbol.asyncDispose]();
    expect(await readdir(folder)).toEqual([]);
  });

  it('does not concern another environment', async () => {
    await CreationLock.take(folder, 'jax');
    await expect(CreationLock.take(folder, 'torch')).resolves.toBeDefined();
  });

  it.each([
    ['a process that has ended', JSON.stringify({ pid: 2 ** 22 + 1, start: '1' })],
    ['a process whose pid another one has now', JSON.stringify({ pid: process.pid, start: 'long ago' })],
    ['nobody, because it is half written', '{"pid": 1']
  ])('is taken over from %s', async (_who, content) => {
    await writeFile(lockFileOf(folder, 'jax'), content);
    expect(await isLocked(folder, 'jax')).toBe(false);
    await CreationLock.take(folder, 'jax');
    expect(await isLocked(folder, 'jax')).toBe(true);
  });

  it('is given to one only when many find a stale one', async () => {
    await writeFile(lockFileOf(folder, 'jax'), JSON.stringify({ pid: 2 ** 22 + 1, start: '1' }));
    const tries = await Promise.allSettled(
      Array.from({ length: 12 }, () => CreationLock.take(folder, 'jax'))
    );
    expect(tries.filter(each => each.status === 'fulfilled')).toHaveLength(1);
  });
});
