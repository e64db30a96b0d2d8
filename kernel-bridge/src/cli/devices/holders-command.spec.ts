import { stat } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { FakeMachine } from '../../devices/testing/fake-machine.js';
import { GENERATIONS } from '../../devices/testing/traces.js';
import { TemporaryGateway } from '../../testing/temporary-gateway.js';
import { runCommand } from '../testing/command-line.js';
import { holdersCommand } from './holders-command.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let machine: FakeMachine;
let bridge: TemporaryGateway;

beforeAll(async () => {
  machine = await FakeMachine.make();
  await machine.addChips(GENERATIONS.find(({ name }) => name === 'v5e')!);
  bridge = await TemporaryGateway.start({ machineRoot: machine.root });
  await bridge.gateway.ready;
});
afterAll(async () => {
  await bridge[Symbol.asyncDispose]();
  await machine[Symbol.asyncDispose]();
});

const run = (...args: string[]) => runCommand(holdersCommand, '--state-dir', bridge.folder, ...args);

describe('tpulab ps', () => {
  it('shows the kernel that holds the chips with how to end it, ends it, and removes a stale lock', async () => {
    expect((await run()).stdout).toContain('No process visible to you uses the chips.');
    const id = await bridge.startKernel();
    await machine.addProcess(4711, 'python3', '/dev/vfio/10');
    await machine.write('proc/4711/environ', `TPULAB_KERNEL_ID=${id}\0`);
    await machine.write('tmp/libtpu_lockfile', '');
    await machine.write('proc/locks', '');
    const { stdout } = await run();
    expect(stdout).toContain('process 4711  python3');
    expect(stdout).toContain(`kernel ${id} (python3), no notebook`);
    expect(stdout).toContain('end it: tpulab ps --end 4711');
    expect(stdout).toContain('remove it: tpulab ps --remove-lock');

    const { error } = await run('--end', '4711', '--remove-lock');
    expect(error).toBeNull();
    expect(bridge.gateway.registry.find(id)).toBeUndefined();
    await expect(stat(path.join(machine.root, 'tmp/libtpu_lockfile'))).rejects.toThrow('ENOENT');
  });

  it('refuses an invalid process, and reports why a foreign one stays', async () => {
    await machine.addProcess(12, 'other', '/dev/vfio/11');
    expect((await run('--end', 'all')).error).toMatchObject({ code: 'commander.invalidArgument' });
    expect((await run('--end', '12')).error).toMatchObject({ code: 'holder_not_ours' });
    expect(((await run('--end', '12')).error as Error).message).toContain('is not a kernel of this server');
  });
});
