/**
 * A setup through a real sshd of a machine without outside access: every file travels over ssh, even if the link breaks
 * meanwhile.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Remote } from '@tpulab/protocol';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { StandInVm, unavailableReason } from '../../../../tests/stand-in-vm/index.js';
import { doctorCommand } from '../../cli/doctor/doctor-command.js';
import { runCommand } from '../../cli/testing/command-line.js';
import type { HostSetup, RemoteShell } from '../../../../machines/src/machine.js';
import { Hub } from '../testing/hub.js';
import { createHostSetup } from '../../../../machines/src/setup/host-setup.js';
import { makeBundle, UV } from '../../../../machines/src/setup/testing/bundles.js';

vi.setConfig({ testTimeout: 900_000, hookTimeout: 240_000 });

/**
 * Synchronises gateways, so that all check a host before any of them changes it, and then send each file at the same
 * moment.
 */
class Together {
  /** Names of the sent files. */
  readonly sent: string[] = [];
  readonly #waiting = new Map<string, (() => void)[]>();
  #ended = 0;

  constructor(private readonly count: number) {}

  each(setup: HostSetup): HostSetup {
    return {
      ...setup,
      prepare: async (shell, options) => {
        let hasChecked = false;
        const watched: RemoteShell = {
          host: shell.host,
          run: async (...call) => {
            const result = await shell.run(...call);
            if (!hasChecked) await this.#meet('look');
            hasChecked = true;
            return result;
          },
          upload: async (file, place, how) => {
            const name = path.basename(place);
            this.sent.push(name);
            if (SENT_BY_ALL.test(name)) await this.#meet(name);
            await shell.upload(file, place, how);
          }
        };
        return setup.prepare(watched, options).finally(() => this.#leave());
      }
    };
  }

  /** A gateway that has ended, with or without success, is no longer awaited by the others. */
  #leave(): void {
    this.#ended++;
    for (const waiting of this.#waiting.values()) for (const go of waiting.splice(0)) go();
  }

  /** Resolves when all remaining gateways have arrived. */
  async #meet(point: string): Promise<void> {
    const waiting = this.#waiting.get(point) ?? [];
    this.#waiting.set(point, waiting);
    if (waiting.length + 1 + this.#ended >= this.count) for (const go of waiting.splice(0)) go();
    else await new Promise<void>(resolve => waiting.push(resolve));
  }
}

/** Files that every gateway sends. Only one gateway creates the environment, so only one sends its packages. */
const SENT_BY_ALL = /^(nodejs|uv-|bridge)/;

const why = unavailableReason() ?? (existsSync(UV) ? null : 'the setup has not been done');
const WAIT = { timeout: 400_000, interval: 50 };

describe.skipIf(why !== null)(`a setup over ssh${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let folder: string;
  let payload: string;
  let vm: StandInVm;
  let hub: Hub;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tpl-ssh-setup-'));
    payload = await makeBundle(path.join(folder, 'bundle'));
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

  it('sends files that the machine cannot download, and continues automatically after the link was cut', async () => {
    await hub.add({ install: true, environment: 'tiny' });
    await vi.waitFor(async () => {
      expect(stageOf(await hub.remote(), 'node')?.detail).toMatch(/^sending/);
    }, WAIT);
    await vm.network.cut();
    const state = async () => (await hub.remote()).state;
    await vi.waitFor(async () => expect(await state(), await hub.log()).toBe('reconnecting'), WAIT);
    await vm.network.restore();
    await vi.waitFor(async () => expect(await state(), await hub.log()).toBe('connected'), WAIT);
    const remote = await hub.remote();
    expect(remote.stages.map(({ state }) => state)).not.toContain('failed');
    expect(remote.checks.filter(({ state }) => state === 'failed')).toEqual([]);
    const { body } = await hub.rest('GET', '/machines/vm/bridge/v1/environments');
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

  it('is removed completely', async () => {
    expect((await hub.post('clean')).status).toBeLessThan(300);
    await vi.waitFor(async () => {
      expect(existsSync(path.join(vm.home, '.tpulab'))).toBe(false);
    }, WAIT);
  });

  it(
    "can be done by two gateways at the same time, and neither damages the other's files",
    { tags: ['long'] },
    async () => {
      const together = new Together(2);
      const start = (cache: string): Promise<Hub> => {
        const setup = createHostSetup({ payload, cache: path.join(folder, cache), uv: UV });
        return Hub.start(vm.laptop, { remotes: { setup: together.each(setup) } });
      };
      await using one = await start('cache');
      await using other = await start('cache');
      const hubs = [one, other];
      await Promise.all(hubs.map(each => each.add({ install: true, environment: 'tiny' })));
      for (const each of hubs) {
        await vi.waitFor(async () => {
          expect((await each.remote()).state, await each.log()).toBe('connected');
        }, WAIT);
        const { stages } = await each.remote();
        expect(stages.map(({ state }) => state)).not.toContain('failed');
      }
      const sentTwice = together.sent.filter((name, at, all) => all.indexOf(name) < at);
      expect(sentTwice.filter(name => SENT_BY_ALL.test(name))).toHaveLength(3);
      expect(await vm.run('cd ~/.tpulab/incoming; find . -type f')).toBe('');
    }
  );
});
