/** `tpulab check`, with a program that prints its arguments instead of the Python that has the TPU compiler. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { checkCommand } from './check-command.js';
import { type Ran, runCommand } from './testing/command-line.js';

const check = (...args: readonly string[]): Promise<Ran> => runCommand(checkCommand, ...args);

describe('tpulab check', () => {
  let folder: string;
  let notebook: string;
  let python: string;

  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'tpl-check-'));
    notebook = path.join(folder, 'a b.ipynb');
    python = path.join(folder, 'python');
    writeFileSync(notebook, '{}');
    writeFileSync(python, '#!/bin/sh\nprintf "%s\\n" "$@"\nexit 1\n');
    chmodSync(python, 0o755);
    vi.stubEnv('TPULAB_AOT_PYTHON', python);
  });

  afterEach(() => {
    vi.unstubAllEnvs();
    process.exitCode = 0;
    rmSync(folder, { recursive: true, force: true });
  });

  it('passes its options to the check of the agent, and ends with its exit code', async () => {
    const ran = await check(notebook, '--chips', 'v5e-8', '--largest-batch', '--json', '--', '--steps', '3');
    expect(ran.error).toBeNull();
    const words = ran.stdout.trim().split('\n');
    expect(words).toEqual([
      ...['-m', 'tpulab.check', '--chips', 'v5e-8', '--largest-batch', '--json'],
      ...['--python', python, notebook, '--', '--steps', '3']
    ]);
    expect(process.exitCode).toBe(1);
  });

  it('writes the report into a file that is named', async () => {
    const ran = await check(notebook, '--json', 'report.json', '--junit', 'j.xml');
    expect(ran.stdout.split('\n')).toContain('--json=report.json');
    expect(ran.stdout).toContain('--junit\nj.xml\n');
  });

  it('runs the source in the Python or the environment that is named', async () => {
    expect((await check(notebook, '--python', '/mine/python')).stdout).toContain('--python\n/mine/python\n');
    const ran = await check(notebook, '--env', 'none', '--env-dir', folder);
    expect(ran.error).toMatchObject({ code: 'env_not_created' });
  });

  it('refuses a missing file before anything is installed', async () => {
    vi.stubEnv('TPULAB_AOT_PYTHON', undefined);
    const ran = await check(path.join(folder, 'none.ipynb'), '--env-dir', folder);
    expect(ran.error).toMatchObject({ code: 'notebook_unusable' });
    expect(ran.stderr).toBe('');
  });
});
