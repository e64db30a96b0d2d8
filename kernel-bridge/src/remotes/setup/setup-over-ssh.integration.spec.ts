/** A set-up through a real sshd, of a machine that reaches nobody: every file travels over ssh, also when the link is cut meanwhile. */
import { mkdtemp, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Remote } from '@tpulab/protocol';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { StandInVm, whyNoStandIn } from '../../../../tests/stand-in-vm/index.js';
import { doctorCommand } from '../../cli/doctor/doctor-command.js';
import { runCommand } from '../../cli/testing/command-line.js';
import { Hub } from '../testing/hub.js';
import { createHostSetup } from './index.js';
import { makeBundle, UV } from './testing/bundles.js';

vi.setConfig({ testTimeout: 280_000, hookTimeout: 120_000 });

const why = whyNoStandIn() ?? (existsSync(UV) ? null : 'the set-up has not been done');
const WAIT = { timeout: 200_000, interval: 50 };

describe.skipIf(why !== null)(`a set-up over ssh${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let folder: string;
  let vm: StandInVm;
  let hub: Hub;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tpl-ssh-setup-'));
    const payload = await makeBundle(path.join(folder, 'bundle'));
    vi.stubEnv('TPULAB_PAYLOAD', payload);
    vm = await StandInVm.start({ bridge: false });
    const setup = createHostSetup({ payload, cache: path.join(folder, 'cache'), uv: UV });
    hub = await Hub.start(vm.laptop, { remotes: { setup } });
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await hub[Symbol.asyncDispose]();
    await vm[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  const stageOf = ({ stages }: Remote, name: string) => stages.find(stage => stage.name === name);

  it('sends what the machine cannot fetch, and goes on after the link was cut', async () => {
    await hub.add({ install: true, environment: 'tiny' });
    await vi.waitFor(async () => {
      expect(stageOf(await hub.remote(), 'node')?.detail).toMatch(/^sending/);
    }, WAIT);
    await vm.network.cut();
    const state = async () => (await hub.remote()).state;
    await vi.waitFor(async () => expect(['failed', 'reconnecting']).toContain(await state()), WAIT);
    await vm.network.restore();
    await hub.post('connect');
    await vi.waitFor(async () => expect(await state(), await hub.log()).toBe('connected'), WAIT);
    const remote = await hub.remote();
    expect(remote.stages.map(({ state }) => state)).not.toContain('failed');
    expect(remote.checks.filter(({ state }) => state === 'failed')).toEqual([]);
    const { body } = await hub.rest('GET', '/remotes/vm/bridge/v1/environments');
    expect(body).toContainEqual(expect.objectContaining({ name: 'tiny', state: 'ready' }));
    expect(await hub.log()).toContain('Node: done');
    expect(await hub.log()).toContain('could not be downloaded there');
  });

  it('is examined by the doctor', async () => {
    const { stdout, error } = await runCommand(
      doctorCommand,
      ...['vm', '--environment', 'jax', '--state-dir', hub.bridge.folder],
      ...['--ssh', path.join(vm.laptop.bin, 'ssh'), '--json']
    );
    expect(error).toBeNull();
    const { findings } = JSON.parse(stdout) as {
      findings: { place: string; checks: { name: string; state: string }[] }[];
    };
    const there = findings.find(({ place }) => place === 'vm')?.checks ?? [];
    expect(there.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        'ssh',
        'architecture',
        'glibc',
        'disk',
        'memory',
        'clock',
        'chips',
        'environment'
      ])
    );
    expect(there.filter(({ state }) => state === 'failed')).toEqual([]);
  });

  it('is removed whole', async () => {
    expect((await hub.post('clean')).status).toBeLessThan(300);
    await vi.waitFor(async () => {
      expect(existsSync(path.join(vm.home, '.tpulab'))).toBe(false);
    }, WAIT);
  });
});
