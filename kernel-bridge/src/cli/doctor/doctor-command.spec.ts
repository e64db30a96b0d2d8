import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Value } from '@sinclair/typebox/value';
import { RemoteCheck } from '@tpulab/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runCommand } from '../testing/command-line.js';
import { doctorCommand } from './doctor-command.js';
import type { Findings } from './doctor-command.js';
import { doctorText } from './doctor-command.js';
import {
  GCLOUD_EXPIRED,
  GCLOUD_FAILURES,
  GCLOUD_OFFLINE,
  tpuDryRun,
  tpuNode
} from '../../../../tests/stand-in-vm/gcloud.js';
import { explainGcloud, type Gcloud } from '../../../../machines/src/gcloud/gcloud.js';
import { checkRemote } from './remote-checks.js';

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
  it('checks this computer and prints a remedy for each missing part', async () => {
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

  it('reports an unreachable host in one sentence and with its exit code', async () => {
    const { stdout } = await run('nobody@127.0.0.1', '--ssh', path.join(folder, 'no-such-ssh'));
    expect(stdout).toContain('WRONG  ssh');
    expect(stdout).toMatch(/^[1-9]\d* errors?, (?:no|\d+) warnings?$/m);
    expect(process.exitCode).toBe(1);
  });
});

describe('a machine of Google Cloud, before it is connected', () => {
  const target = 'gcloud:my-tpu';
  /**
   * Returns the first check. Keys of `answers` are words of gcloud's command line; an answer that begins with `ERROR` is a
   * refusal.
   */
  const first = async (
    answers: Readonly<Record<string, string>>,
    where: { zone?: string } = { zone: 'z' }
  ) => {
    const query: Gcloud['query'] = async (args, requested) => {
      const words = args.join(' ');
      const output = Object.entries(answers).find(([part]) => words.includes(part))?.[1] ?? 'ERROR: no';
      if (output.startsWith('ERROR')) throw explainGcloud(output, requested);
      return output;
    };
    const gcloud: Gcloud = { query, change: async () => undefined };
    const { signal } = new AbortController();
    const sshProgram = path.join(folder, 'no-such-ssh');
    const wanted = { target, ...where, project: 'p', stateDir: folder, environment: undefined, sshProgram };
    return checkRemote({ ...wanted, gcloud, signal });
  };
  const inside = { networkEndpoints: [{ ipAddress: '10.0.0.7', accessConfig: {} }] };
  const hosts = [0, 1].map(worker =>
    tpuDryRun({
      user: 'ana',
      address: `192.0.2.${worker}`,
      key: '/k',
      knownHosts: '/h',
      hostKeyAlias: `tpu.1-${worker}`,
      isKnown: true
    })
  );

  it.each([
    ['is still being created', { describe: tpuNode({ state: 'CREATING' }) }, 'warning', /^Connect now/],
    ['has no external address', { describe: tpuNode(inside) }, 'failed', /^Connect with --iap\.$/],
    [
      'was preempted',
      { describe: tpuNode({ state: 'PREEMPTED' }) },
      'failed',
      /^Run: gcloud .* delete my-tpu/
    ],
    ['is stopped', { describe: tpuNode({ state: 'STOPPED' }) }, 'failed', /^Run: gcloud .* start my-tpu/],
    ['may not be seen', { describe: GCLOUD_FAILURES['gcloud_permission']! }, 'failed', /roles\/tpu\.admin$/],
    [
      'is asked for without a login',
      { describe: GCLOUD_EXPIRED.expired },
      'failed',
      /^Run: gcloud auth login$/
    ],
    ['is asked for offline', { describe: GCLOUD_OFFLINE.refresh }, 'failed', /to the network/]
  ] as const)('%s', async (_what, answers, state, remedy) => {
    const [check, ...others] = await first(answers);
    expect(check).toMatchObject({ name: 'Google Cloud', state });
    expect(check!.remedy).toMatch(remedy);
    expect(others).toEqual([]);
  });

  it('is reported as a slice', async () => {
    const [ready, slice] = await first({ describe: tpuNode(), '--dry-run': hosts.join('') });
    expect(ready).toMatchObject({ name: 'Google Cloud', state: 'ok' });
    expect(slice).toMatchObject({ name: 'slice', state: 'ok' });
    expect(slice!.message).toBe('2 hosts; connecting sets up all and offers one kernel over them');
  });

  it('is searched for by name if no zone is given, and reported as missing if there is none', async () => {
    const answers = { 'config get-value compute/zone': '(unset)', 'tpu-vm list': '[]' };
    const [check, ...others] = await first(answers, {});
    expect(check).toMatchObject({ name: 'target', state: 'failed' });
    expect(check!.message).toContain('There is no tpu-vm named my-tpu in the project p.');
    expect(others).toEqual([]);
  });
});

describe('the text of the doctor', () => {
  it('shows a remedy below each failed check, and only there', () => {
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
      '1 error, no warnings'
    ]);
    expect(doctorText([{ place: 'vm', checks: [] }])).toContain('No problems.');
  });
});
