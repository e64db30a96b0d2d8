/** `tpulab env` in separate processes that are interrupted in the middle of the installation. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { canSignal } from '@tpulab/platform/process-identity.js';
import { bridgeBuild } from '../faults/testing/bridge-build.js';
import {
  type TinyFolders,
  tinyFolders
} from '../../../machines/src/environments/testing/tiny-definitions.js';
import { findUv } from '../../../machines/src/environments/uv.js';

const SLOW_UV = fileURLToPath(
  new URL('../../../machines/src/environments/testing/slow-uv.mjs', import.meta.url)
);
const WAIT = { timeout: 60_000, interval: 20 };

let program: string;
let folders: TinyFolders;
let where: string[];
let pidFile: string;

beforeAll(async () => {
  program = await bridgeBuild();
});
beforeEach(async () => {
  folders = await tinyFolders();
  where = ['--env-dir', folders.environments, '--definitions', folders.definitions];
  pidFile = path.join(folders.definitions, 'slow-uv.pid');
});
afterEach(async () => {
  const pid = await slowUvPid();
  if (pid !== null && canSignal(pid)) process.kill(pid, 'SIGKILL');
  await folders[Symbol.asyncDispose]();
});

function start(args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
  return spawn(process.execPath, [program, 'env', ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  });
}

/** Resolves with the process's output and exit status. */
async function ended(
  child: ChildProcess
): Promise<{ code: number | null; signal: string | null; stdout: string; stderr: string }> {
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}

/** Starts a creation that has reached its installation, which will not end on its own. */
async function startSlowly() {
  const env = { TPULAB_UV: SLOW_UV, TEST_REAL_UV: findUv(), TEST_PID_FILE: pidFile };
  const child = start(['create', 'tiny', ...where], env);
  const end = ended(child);
  await vi.waitFor(() => expect(existsSync(pidFile)).toBe(true), WAIT);
  return { child, end };
}

function run(...args: string[]) {
  return ended(start([...args, ...where], { TPULAB_UV: findUv() }));
}

async function slowUvPid(): Promise<number | null> {
  const text = await readFile(pidFile, 'utf8').catch(() => '');
  return text === '' ? null : Number(text);
}

describe('a creation that is interrupted', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129]
  ] as const)('by %s ends its installer, removes what was half made and says so', async (signal, code) => {
    const { child, end } = await startSlowly();
    child.kill(signal);
    const result = await end;
    expect(result.code).toBe(code);
    expect(result.stderr).toContain('was interrupted and left nothing behind');
    expect(await readdir(folders.environments)).toEqual([]);
    const installer = await slowUvPid();
    await vi.waitFor(() => expect(installer !== null && canSignal(installer)).toBe(false), WAIT);
  });

  it('by SIGKILL is never accepted as an environment, and is removed by the next command', async () => {
    const { child, end } = await startSlowly();
    child.kill('SIGKILL');
    expect((await end).signal).toBe('SIGKILL');
    const listed = JSON.parse((await run('list', '--json')).stdout) as { state: string }[];
    expect(listed.map(info => info.state)).toEqual(['available']);
    const made = await run('create', 'tiny');
    expect(made.stderr + made.stdout).toContain('is ready');
    expect(await readdir(folders.environments)).toEqual(['tiny']);
  });

  it('locks out another creation of the same name while it runs', async () => {
    const { child, end } = await startSlowly();
    const second = await run('create', 'tiny', '--json');
    expect(second.code).toBe(1);
    expect(JSON.parse(second.stdout)).toMatchObject({ error: { code: 'env_in_use' } });
    child.kill('SIGINT');
    await end;
  });
});

describe('the command line', () => {
  it('shows each stage with its time on stderr and the result on stdout', async () => {
    const { code, stdout, stderr } = await run('create', 'tiny');
    expect(code).toBe(0);
    expect(stderr).toMatch(/making the environment: \d+(\.\d+)? m?s\n/);
    expect(stderr).toMatch(/installing 0 packages: \d+(\.\d+)? m?s\n/);
    expect(stdout).toBe(`The environment "tiny" is ready: ${path.join(folders.environments, 'tiny')}\n`);
  });

  it('exits with 1 and one sentence after an error', async () => {
    const unknown = await run('create', 'tinny');
    expect(unknown.code).toBe(1);
    expect(unknown.stderr).toBe('There is no environment "tinny"; did you mean "tiny"? (known: tiny).\n');
    const checked = await run('check', 'tiny');
    expect(checked.code).toBe(1);
    expect(checked.stdout).toContain('tpulab env create tiny');
  });

  it('prints help', async () => {
    for (const name of ['list', 'create', 'check', 'remove']) {
      const help = await ended(start([name, '--help'], {}));
      expect(help.code).toBe(0);
      expect(help.stdout).toContain('--json');
    }
  });
});
