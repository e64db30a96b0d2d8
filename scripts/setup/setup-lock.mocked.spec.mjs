// @ts-check
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { checkout } from './checkout.mjs';

vi.mock('./checkout.mjs', async original => {
  const real = /** @type {{ checkout: typeof checkout }} */ (await original());
  const { mkdtempSync } = await import('node:fs');
  const os = await import('node:os');
  return { checkout: { ...real.checkout, made: mkdtempSync(path.join(os.tmpdir(), 'tpulab-setup-')) } };
});
const { withSetupLock } = await import('./setup-lock.mjs');
const { Interrupted } = await import('./setup-problem.mjs');

const FILE = path.join(checkout.made, 'set-up.lock');
const never = new AbortController().signal;

afterEach(() => rm(FILE, { force: true }));

it('is held during the work and released afterwards, even when the work fails', async () => {
  const work = async () => {
    expect(await readdir(checkout.made)).toEqual(['set-up.lock']);
    throw new Error('the work failed');
  };
  await expect(withSetupLock(work, never, () => undefined)).rejects.toThrow('the work failed');
  expect(await readdir(checkout.made)).toEqual([]);
});

it('of a process that has ended is taken over', async () => {
  const child = spawn(process.execPath, ['-e', '0']);
  await once(child, 'exit');
  await writeFile(FILE, `${child.pid}\n`);
  expect(
    await withSetupLock(
      async () => 'done',
      never,
      () => undefined
    )
  ).toBe('done');
});

it('of a living process is waited for, which is reported once', async () => {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => 0, 1000)']);
  try {
    await writeFile(FILE, `${child.pid}\n`);
    const controller = new AbortController();
    const waits = /** @type {number[]} */ ([]);
    const waiting = withSetupLock(
      async () => 'done',
      controller.signal,
      pid => {
        waits.push(pid);
        child.kill('SIGKILL');
      }
    );
    expect(await waiting).toBe('done');
    expect(waits).toEqual([child.pid]);
  } finally {
    child.kill('SIGKILL');
  }
});

it('is not waited for after an interruption', async () => {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => 0, 1000)']);
  try {
    await writeFile(FILE, `${child.pid}\n`);
    const controller = new AbortController();
    const waiting = withSetupLock(
      async () => 'done',
      controller.signal,
      () => controller.abort()
    );
    await expect(waiting).rejects.toThrow(Interrupted);
  } finally {
    child.kill('SIGKILL');
  }
});
