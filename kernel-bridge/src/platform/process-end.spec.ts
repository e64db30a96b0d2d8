import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { processEnd } from '../keeper/kernel-process.js';
import { processStart } from '@tpulab/platform/process-identity.js';

/** Longer than any test takes. */
const NEVER_MS = 600_000;
const REAL = { platform: process.platform, path: process.env['PATH'] };
let folder: string;
let child: ChildProcess;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-process-end-'));
  child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'], { stdio: 'ignore' });
  await once(child, 'spawn');
});

afterEach(async () => {
  Object.defineProperty(process, 'platform', { value: REAL.platform });
  process.env['PATH'] = REAL.path;
  child.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

/** A machine without /proc, whose `ps` counts its calls. Returns the count. */
async function withoutProc(): Promise<() => Promise<number>> {
  const calls = path.join(folder, 'calls');
  const ps = path.join(folder, 'ps');
  await writeFile(calls, '');
  await writeFile(ps, `#!/bin/sh\necho call >> '${calls}'\nPATH='${REAL.path}' exec ps "$@"\n`);
  await chmod(ps, 0o700);
  process.env['PATH'] = `${folder}:${REAL.path}`;
  Object.defineProperty(process, 'platform', { value: 'darwin' });
  return async () => (await readFile(calls, 'utf8')).split('\n').length - 1;
}

describe.each(['with /proc', 'without /proc'])('the end of a process, %s', where => {
  it('is noticed, and starts no program for each check', async () => {
    const calls = where === 'without /proc' ? await withoutProc() : null;
    const start = (await processStart(child.pid!))!;
    let hasEnded = false;
    const end = processEnd(child.pid!, start, NEVER_MS).then(() => (hasEnded = true));
    await delay(1000); // Five checks.
    expect(hasEnded).toBe(false);
    child.kill('SIGKILL');
    await end;
    if (calls !== null) expect(await calls()).toBe(2); // Once for `start`, and once at the beginning.
  });

  it('is noticed if no process reaps it', async () => {
    if (where === 'without /proc') await withoutProc();
    const parent = spawn('sh', ['-c', 'sleep 600 & echo $!; exec sleep 600'], {
      stdio: ['ignore', 'pipe', 'ignore']
    });
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    const start = (await processStart(pid))!;
    process.kill(pid, 'SIGKILL');
    await processEnd(pid, start, 300);
    expect(await processStart(pid)).toBeNull();
    expect(() => process.kill(pid, 0)).not.toThrow();
    parent.kill('SIGKILL');
  });

  it('is noticed when another process has got the pid', async () => {
    if (where === 'without /proc') await withoutProc();
    await processEnd(child.pid!, 'another start');
  });
});

it('identifies the process again after a while if a check alone cannot do so', async () => {
  const calls = await withoutProc();
  const start = (await processStart(child.pid!))!;
  const end = processEnd(child.pid!, start, 300);
  await vi.waitFor(async () => expect(await calls()).toBeGreaterThan(3), 50_000);
  child.kill('SIGKILL');
  await end;
});
