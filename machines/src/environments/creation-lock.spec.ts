import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isLocked, lockEnvironment } from './creation-record.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-lock-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe('the lock of an environment', () => {
  it('is refused while a live process holds it, which is named', async () => {
    const lock = await lockEnvironment(folder, 'jax');
    expect(await isLocked(folder, 'jax')).toBe(true);
    await expect(lockEnvironment(folder, 'jax')).rejects.toMatchObject({
      code: 'env_in_use',
      message: expect.stringContaining(String(process.pid)) as string
    });
    await lock[Symbol.asyncDispose]();
    await (await lockEnvironment(folder, 'jax'))[Symbol.asyncDispose]();
    expect(await readdir(folder)).toEqual([]);
  });

  it('does not affect another environment', async () => {
    await lockEnvironment(folder, 'jax');
    await expect(lockEnvironment(folder, 'torch')).resolves.toBeDefined();
    expect(await isLocked(folder, 'dia')).toBe(false);
  });
});
