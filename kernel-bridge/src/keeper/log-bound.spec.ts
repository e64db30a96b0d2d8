import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LogBound } from './keeper-log.js';

const log = pino({ level: 'silent' });
let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-log-'));
  file = path.join(folder, 'kernel.log');
});

afterEach(() => rm(folder, { recursive: true, force: true }));

describe('the bound of a log', { timeout: 60_000 }, () => {
  it('archives the newest part and lets the process that has it open continue from the start', async () => {
    const fd = openSync(file, 'a', 0o600);
    const child = spawn(process.execPath, ['-e', 'process.stdin.on("data", d => process.stdout.write(d))'], {
      stdio: ['pipe', fd, fd]
    });
    closeSync(fd);
    await using bound = new LogBound([file], log, { maxBytes: 1000, intervalMs: 1_000_000 });
    child.stdin!.write('x'.repeat(1500) + 'end');
    await vi.waitFor(async () => expect((await stat(file)).size).toBe(1503), 30_000);
    await bound.check();
    expect((await stat(file)).size).toBe(0);
    expect(await readFile(`${file}.1`, 'utf8')).toBe('x'.repeat(997) + 'end');
    expect((await stat(`${file}.1`)).mode & 0o777).toBe(0o600);
    child.stdin!.end('after');
    await once(child, 'exit');
    expect(await readFile(file, 'utf8')).toBe('after');
  });

  it('leaves a small log alone, and one that does not exist', async () => {
    await writeFile(file, 'little');
    await using bound = new LogBound([file, path.join(folder, 'none.log')], log, { maxBytes: 1000 });
    await bound.check();
    expect(await readdir(folder)).toEqual(['kernel.log']);
  });

  it('is enforced automatically, and by emptying where no copy can be made', async () => {
    await mkdir(path.join(`${file}.1`, 'in the way'), { recursive: true });
    await using bound = new LogBound([file], log, { maxBytes: 1000, intervalMs: 5 });
    await appendFile(file, 'x'.repeat(2000));
    await vi.waitFor(async () => expect((await stat(file)).size).toBe(0), 30_000);
    expect(bound).toBeDefined();
    expect((await readdir(folder)).sort()).toEqual(['kernel.log', 'kernel.log.1']);
  });
});
