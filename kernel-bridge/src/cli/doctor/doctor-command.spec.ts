import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Value } from '@sinclair/typebox/value';
import { RemoteCheck } from '@tpulab/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runCommand } from '../testing/command-line.js';
import { doctorCommand, type Findings } from './doctor-command.js';
import { doctorText } from './doctor-text.js';

vi.setConfig({ testTimeout: 120_000 });

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-doctor-'));
});
afterEach(async () => {
  process.exitCode = 0;
  await rm(folder, { recursive: true, force: true });
});

const run = (...args: string[]) =>
  runCommand(doctorCommand, '--state-dir', folder, '--env-dir', path.join(folder, 'envs'), ...args);

describe('tpulab doctor', () => {
  it('looks at this computer and says what to do about what is missing', async () => {
    const { stdout, error } = await run('--json');
    expect(error).toBeNull();
    const [here] = (JSON.parse(stdout) as { findings: Findings[] }).findings;
    expect(here?.place).toBe('this computer');
    for (const check of here?.checks ?? []) {
      expect([...Value.Errors(RemoteCheck, check)]).toEqual([]);
      if (check.state !== 'ok') expect(check.remedy, check.name).not.toBe('');
    }
    const found = new Map(here?.checks.map(check => [check.name, check]));
    expect(found.get('Node')?.state).toBe('ok');
    expect(found.get('environments')).toMatchObject({
      state: 'warning',
      remedy: 'Run "tpulab env create jax".'
    });
    expect([...found.keys()]).toEqual(
      expect.arrayContaining([
        'uv',
        'Python',
        'ssh',
        'rsync',
        'gcloud',
        'disk',
        'gateway',
        'ports',
        'JupyterLab'
      ])
    );
  });

  it('says in words and by its exit code when a host cannot be reached', async () => {
    const { stdout } = await run('nobody@127.0.0.1', '--ssh', path.join(folder, 'no-such-ssh'));
    expect(stdout).toContain('WRONG  ssh');
    expect(stdout).toMatch(/\d+ wrong, \d+ to look at\./);
    expect(process.exitCode).toBe(1);
  });
});

describe('the text of the doctor', () => {
  it('shows a remedy below what is not well, and only there', () => {
    const text = doctorText([
      {
        place: 'vm',
        checks: [
          { name: 'disk', state: 'ok', message: 'much', remedy: null },
          { name: 'clock', state: 'failed', message: 'a day off', remedy: 'Set it.' }
        ]
      }
    ]);
    expect(text.split('\n')).toEqual([
      'vm',
      '  ok     disk   much',
      '  WRONG  clock  a day off',
      '                → Set it.',
      '',
      '1 wrong, 0 to look at.'
    ]);
    expect(doctorText([{ place: 'vm', checks: [] }])).toContain('All is well.');
  });
});
