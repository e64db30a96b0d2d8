/** The example of docs/new-machine.md as a remote: another home folder of this computer, reached by a command without ssh. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { OpenMachine } from '@tpulab/machines';
import { createHostSetup } from '../../../machines/src/setup/host-setup.js';
import { makeBundle, UV } from '../../../machines/src/setup/testing/bundles.js';
import { networkVariables } from '../../../machines/src/setup/testing/local-shell.js';
import { uvCache } from '../../../machines/src/setup/testing/watched-setup.js';
import { CommandMachine } from '../../../machines/src/testing/command-machine.js';
import { NumberedClient } from '../faults/testing/numbered-client.js';
import { marksOf, numberedCell } from '../faults/testing/numbered-output.js';
import { Hub } from './testing/hub.js';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 240_000 });

const COUNT = 300;

describe.skipIf(!existsSync(UV))('a machine that is reached by a command', () => {
  const opened: CommandMachine[] = [];
  let folder: string;
  let hub: Hub;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tpl-command-'));
    const [home, payload] = [path.join(folder, 'home'), await makeBundle(path.join(folder, 'bundle'))];
    await mkdir(path.join(home, '.tpulab', 'cache'), { recursive: true });
    await symlink(await uvCache(), path.join(home, '.tpulab', 'cache', 'uv'));
    const variables = { HOME: home, PATH: process.env['PATH'] ?? '', ...networkVariables() };
    const command = [
      'env',
      '-i',
      '-C',
      home,
      ...Object.entries(variables).map(([name, value]) => `${name}=${value}`)
    ];
    const open: OpenMachine = async () => {
      const machine = await CommandMachine.open(['env', ...command.slice(1)], path.join(folder, 'here.sock'));
      opened.push(machine);
      return { machine, targets: [{ destination: 'here', options: [] }] };
    };
    const setup = createHostSetup({ payload, cache: path.join(folder, 'cache'), uv: UV });
    hub = await Hub.start(null, { remotes: { open, setup } });
  });
  afterAll(async () => {
    await hub.post('clean');
    await hub[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  it('is set up from scratch, and serves kernels', async () => {
    await hub.add({ install: true, environment: 'plain' });
    await vi.waitFor(async () => expect((await hub.remote()).state, await hub.log()).toBe('connected'), {
      timeout: 400_000,
      interval: 100
    });
    const { body } = await hub.rest('GET', '/machines/vm/api/kernelspecs');
    expect(body).toMatchObject({ kernelspecs: { 'tpulab-plain': {} } });
  });

  it('keeps the output of a cell after the command has ended, and reconnects', async () => {
    const { body } = await hub.rest('POST', '/machines/vm/api/kernels', { body: { name: 'tpulab-plain' } });
    const url = (): string => `${hub.bridge.url}machines/vm/`;
    using client = await new NumberedClient({
      kind: 'ours',
      kernelId: (body as { id: string }).id,
      url
    }).connect();
    client.execute(numberedCell({ count: COUNT, perSecond: 50, witness: path.join(folder, 'witness') }));
    await client.until(() => client.greatest >= 5, 'for the first numbers');
    opened.at(-1)?.session.kill();
    await vi.waitFor(() => expect(opened).toHaveLength(2), { timeout: 60_000 });
    await hub.until('connected');
    await client.until(() => client.isAnswered && client.greatest === COUNT - 1, 'for the last number');
    expect(marksOf(COUNT, client.shown)).toMatchObject({ lost: 0, doubled: 0, reordered: 0 });
  });

  it('is removed completely', async () => {
    expect((await hub.post('clean')).status).toBeLessThan(300);
    expect(existsSync(path.join(folder, 'home', '.tpulab'))).toBe(false);
  });
});
