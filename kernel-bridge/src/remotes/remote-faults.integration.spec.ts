/** Faults at either end of a remote, with the laptop's gateway as a separate process. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Remote } from '@tpulab/protocol';
import { StandInVm, type StandInVmOptions, unavailableReason } from '../../../tests/stand-in-vm/index.js';
import { bridgeBuild } from '../faults/testing/bridge-build.js';
import { BridgeProcess } from '../faults/testing/bridge-process.js';
import { NumberedClient } from '../faults/testing/numbered-client.js';
import { printedCount, marksOf, numberedCell } from '../faults/testing/numbered-output.js';
import { smallDiskProblem } from '../faults/testing/small-disk.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();
const COUNT = 300;

describe.skipIf(why !== null)(`faults of a remote${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let vm: StandInVm;
  let stateDir: string;
  let bridge: BridgeProcess;
  const path_ = process.env['PATH'];

  async function scene(options: StandInVmOptions = {}): Promise<void> {
    vm = await StandInVm.start(options);
    // The gateway finds the laptop's ssh like any other program: on PATH.
    process.env['PATH'] = vm.laptop.path;
    stateDir = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    bridge = await BridgeProcess.start({ program: await bridgeBuild(), stateDir });
  }

  afterEach(async () => {
    process.env['PATH'] = path_;
    await bridge.end('SIGTERM');
    await vm[Symbol.asyncDispose]();
    await rm(stateDir, { recursive: true, force: true });
  });

  async function add(): Promise<void> {
    const source = { kind: 'ssh', destination: 'vm' };
    const { status } = await bridge.rest('POST', 'bridge/v1/machines', {
      name: 'vm',
      source,
      install: false
    });
    expect(status).toBe(201);
  }

  async function remote(): Promise<Remote> {
    return (await bridge.rest('GET', 'bridge/v1/machines/vm')).body as Remote;
  }

  async function until(state: Remote['state']): Promise<Remote> {
    await vi.waitFor(async () => expect(await remote()).toMatchObject({ state }), {
      timeout: 90_000,
      interval: 50
    });
    return remote();
  }

  async function printing(perSecond: number): Promise<NumberedClient> {
    const { status, body } = await bridge.rest('POST', 'machines/vm/api/kernels', { name: 'lossless' });
    expect([status, body]).toMatchObject([201, {}]);
    const url = (): string => `${bridge.url}machines/vm/`;
    const { id: kernelId } = body as { id: string };
    const client = await new NumberedClient({ kind: 'ours', kernelId, url }).connect();
    client.execute(numberedCell({ count: COUNT, perSecond, witness: '/tmp/witness' }));
    await client.until(() => client.greatest >= 5, 'for the first numbers');
    return client;
  }

  function masters(): number {
    const all = execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' });
    return all.split('\n').filter(line => line.includes(`ControlPath=${stateDir}`)).length;
  }

  it('the gateway of the laptop is killed: the next one connects automatically, and nothing is lost', async () => {
    await scene();
    await add();
    await until('connected');
    expect(masters()).toBe(1);
    using client = await printing(40);
    const { port } = bridge;
    await bridge.end('SIGKILL');
    bridge = await BridgeProcess.start({ program: await bridgeBuild(), stateDir, port });
    await until('connected');
    await client.until(() => client.isAnswered && client.greatest === COUNT - 1, 'for the last number');
    expect(marksOf(COUNT, client.shown)).toMatchObject({ lost: 0, doubled: 0, reordered: 0 });
    // The connection of the killed gateway was ended.
    expect(masters()).toBe(1);
    await bridge.end('SIGTERM');
    expect(masters()).toBe(0);
  });

  it.skipIf(smallDiskProblem() !== null)(
    'the disk of the machine is full: the machine reports it, and the cell continues once there is space',
    async () => {
      await scene({ homeDiskMiB: 24 });
      vm.fillDisk();
      await add();
      const { error } = await until('failed');
      expect(error).toMatchObject({ code: 'remote_disk_full' });
      vm.freeDisk();
      await bridge.rest('POST', 'bridge/v1/machines/vm/connect');
      await until('connected');
      using client = await printing(40);
      vm.fillDisk();
      // Only written records are sent to clients; new ones wait until there is space again.
      const witness = vm.machine.at('/tmp/witness');
      await vi.waitFor(() => expect(printedCount(witness)).toBeGreaterThan(COUNT * 0.7), { timeout: 90_000 });
      vm.freeDisk();
      await client.until(() => client.isAnswered && client.greatest === COUNT - 1, 'for the last number');
      expect(marksOf(COUNT, client.shown)).toMatchObject({ lost: 0, doubled: 0, reordered: 0 });
    }
  );
});
