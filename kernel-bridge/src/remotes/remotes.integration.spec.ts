/** A remote through a stand-in VM: which data passes, and the state after a failure in between. */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { StandInVm, USER, unavailableReason } from '../../../tests/stand-in-vm/index.js';
import { NumberedClient } from '../faults/testing/numbered-client.js';
import { marksOf, numberedCell } from '../faults/testing/numbered-output.js';
import { TOKEN } from '../testing/temporary-gateway.js';
import type { HostSetup } from '../../../machines/src/machine.js';
import { InstalledSetup } from '../../../machines/src/setup/installed-setup.js';
import { Hub } from './testing/hub.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();
const COUNT = 400;
/** Nothing lost, nothing twice, nothing out of order. */
const WHOLE = { lost: 0, doubled: 0, reordered: 0 };
/** An environment that was created there. */
const MADE = {
  ...{
    format: 1,
    name: 'jax',
    displayName: 'JAX',
    fingerprint: 'x',
    createdAt: '2026-01-01T00:00:00Z',
    uv: '0'
  },
  kernelspec: { argv: ['false'], env: {}, envDefaults: {}, debugger: false }
};

describe.skipIf(why !== null)(`a remote over ssh${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let vm: StandInVm;
  let hub: Hub;

  beforeAll(async () => {
    vm = await StandInVm.start();
    hub = await Hub.start(vm.laptop);
    await hub.add();
    await hub.until('connected');
  });
  afterAll(async () => {
    await hub[Symbol.asyncDispose]();
    await vm[Symbol.asyncDispose]();
  });

  async function startKernel(name = 'lossless'): Promise<string> {
    const { status, body } = await hub.rest('POST', '/machines/vm/api/kernels', { body: { name } });
    if (status !== 201) throw new Error(JSON.stringify(body));
    return (body as { id: string }).id;
  }

  async function clientOf(kernelId: string): Promise<NumberedClient> {
    const url = (): string => `${hub.bridge.url}machines/vm/`;
    return new NumberedClient({ kind: 'ours', kernelId, url }).connect();
  }

  /** A cell that prints numbers slowly enough for a fault during its run. */
  async function printing(perSecond = 20): Promise<NumberedClient> {
    const client = await clientOf(await startKernel());
    client.execute(numberedCell({ count: COUNT, perSecond, witness: `/home/${USER}/witness` }));
    await client.until(() => client.greatest >= 5, 'for the first numbers');
    return client;
  }

  async function allOf(client: NumberedClient): Promise<object> {
    await client.until(() => client.isAnswered && client.greatest === COUNT - 1, 'for the last number');
    return marksOf(COUNT, client.shown);
  }

  it('serves the gateway of the machine under its name, with the token of this one', async () => {
    const remote = await hub.remote();
    const health = await hub.rest('GET', '/machines/vm/bridge/v1/health');
    expect(health).toMatchObject({ status: 200, body: { gatewayId: remote.gatewayId } });
    expect(remote).toMatchObject({ hosts: ['vm'], error: null });
    // The accelerator is queried once the gateway there answers.
    await vi.waitFor(async () => expect((await hub.remote()).accelerator).toMatchObject({ chips: 0 }), {
      timeout: 60_000
    });
    expect(remote.stages.map(({ name, state }) => [name, state])).toEqual([
      ['ssh', 'done'],
      ['bridge', 'done'],
      ['gateway', 'done']
    ]);
    expect((await hub.rest('GET', '/machines/vm/api/kernels', { token: null })).status).toBe(403);
    expect((await hub.rest('GET', '/machines/vm/api/kernels', { token: 'another' })).status).toBe(403);
    expect((await hub.rest('GET', '/machines/nobody/api/kernels')).status).toBe(404);
  });

  it('sends its events to pages', async () => {
    const socket = new WebSocket(`${hub.bridge.url.replace('http', 'ws')}bridge/v1/events?token=${TOKEN}`);
    const seen: string[] = [];
    socket.on('open', () => socket.send('{"op":"subscribe","topics":["remotes"]}'));
    socket.on('message', data => {
      const frame = JSON.parse((data as Buffer).toString()) as { events?: { remote: { state: string } }[] };
      for (const { remote } of frame.events ?? []) seen.push(remote.state);
    });
    await vi.waitFor(() => expect(seen).toContain('connected'), { timeout: 30_000 });
    await hub.post('disconnect');
    await vi.waitFor(() => expect(seen).toContain('disconnected'), { timeout: 30_000 });
    await hub.post('connect');
    await hub.until('connected');
    await vi.waitFor(() => expect(seen.at(-1)).toBe('connected'), { timeout: 30_000 });
    expect(seen).toContain('connecting');
    socket.terminate();
  });

  it('a cell continues while the network is down, and all its output is there once and in order', async () => {
    using client = await printing();
    await vm.network.cut();
    // Nobody notifies ssh; it notices after three unanswered keep-alive messages.
    await hub.until('reconnecting');
    const before = client.greatest;
    const answer = await hub.rest('GET', '/machines/vm/api/kernels');
    expect(answer).toMatchObject({ status: 503, body: { code: 'remote_unavailable' } });
    await vm.network.restore();
    await hub.post('connect');
    await hub.until('connected');
    expect(await allOf(client)).toMatchObject(WHOLE);
    expect(before).toBeLessThan(COUNT - 1);
    expect(client.connections).toBeGreaterThan(1);
  });

  it('the gateway on the machine is killed in mid-cell: another one takes over, and nothing is lost', async () => {
    using client = await printing(50);
    const { gatewayId } = await hub.remote();
    await vm.run('kill -9 $(sed -n \'s/.*"pid":\\([0-9]*\\).*/\\1/p\' ~/.local/state/tpulab/gateway.json)');
    await vi.waitFor(async () => expect((await hub.until('connected')).gatewayId).not.toBe(gatewayId), {
      timeout: 90_000,
      interval: 100
    });
    expect(await allOf(client)).toMatchObject(WHOLE);
    // ssh did not log in again, because its connection had not failed.
    expect(await hub.log()).toMatch(/does not answer|another gateway|was restarted/i);
  });

  it('the addresses of this computer change: the connection is probed, and stays if it is alive', async () => {
    const { connectedAt } = await hub.remote();
    await vm.network.changeAddresses();
    await vi.waitFor(async () => expect(await hub.log()).toContain('the network has changed'), {
      timeout: 30_000
    });
    expect((await hub.until('connected')).connectedAt).toBe(connectedAt);
  });

  it("the machine is rebooted: it is found again, and its kernel's output is stored on this side", async () => {
    using client = await printing(20);
    await client.until(() => client.greatest > 20, 'for some numbers');
    await vm.reboot();
    await hub.until('reconnecting').catch(() => undefined);
    await hub.post('connect');
    await vi.waitFor(async () => expect((await hub.remote()).state).toBe('connected'), {
      timeout: 120_000,
      interval: 100
    });
    const kernels = await hub.rest('GET', '/machines/vm/api/kernels');
    expect(kernels.status).toBe(200);
    const mirror = await hub.rest('GET', '/bridge/v1/machines/vm/mirror');
    expect((mirror.body as { kernels: unknown[] }).kernels.length).toBeGreaterThan(0);
  });

  it('stores its data so that only this user can read it, and no token in its log', async () => {
    const stateDir = hub.bridge.folder;
    const log = await readFile(path.join(stateDir, 'remotes', 'vm.log'), 'utf8');
    const token = (await vm.run('cat ~/.local/state/tpulab/token')).trim();
    expect(log).toContain('connected');
    expect(log).not.toContain(token);
    expect(await readFile(path.join(stateDir, 'remotes.json'), 'utf8')).not.toContain(token);
  });

  it('remembers packages that a person has added there, and requests them when the machine is recreated', async () => {
    const requests: (readonly string[] | undefined)[] = [];
    const prepares: HostSetup = {
      prepare: (shell, options) => {
        requests.push(options.added);
        return new InstalledSetup().prepare(shell, options);
      },
      clean: () => Promise.resolve()
    };
    // As pip records it: a package with REQUESTED was requested by name.
    await vm.run(`set -e
      place=$HOME/no-environments/jax; info=$place/lib/python3.12/site-packages/tinyadd-1.2.dist-info
      mkdir -p $place/bin $info; ln -s "$(command -v python3)" $place/bin/python
      printf '%s' '${JSON.stringify(MADE)}' >$place/tpulab.json
      printf 'Metadata-Version: 2.1\nName: tinyadd\nVersion: 1.2\n' >$info/METADATA; : >$info/REQUESTED`);
    await using other = await Hub.start(vm.laptop, { remotes: { setup: prepares } });
    await other.add({ install: true });
    await other.until('connected');
    const file = path.join(other.bridge.folder, 'remotes.json');
    await vi.waitFor(
      async () =>
        expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({
          remotes: [{ added: { jax: ['tinyadd==1.2'] } }]
        }),
      { timeout: 60_000 }
    );
    // The environment was lost with the machine.
    await vm.run('rm -r ~/no-environments');
    await other.post('disconnect');
    await other.post('connect');
    await other.until('connected');
    expect(requests).toEqual([[], ['tinyadd==1.2']]);
  });

  it('is forgotten when it is removed, and its gateway there continues', async () => {
    expect((await hub.rest('DELETE', '/bridge/v1/machines/vm')).status).toBe(204);
    expect((await hub.rest('GET', '/machines/vm/api')).status).toBe(404);
    expect(await vm.run('~/.local/bin/tpulab status --json')).toContain('"status":"ok"');
  });

  it('an attempt with a hanging ssh is restarted on request', async () => {
    const program = path.join(vm.laptop.bin, 'hanging-ssh');
    const hung = path.join(vm.laptop.folder, 'hung');
    // The first ssh hangs without output; later ones are the real ssh.
    await writeFile(
      program,
      `#!/bin/sh
case " $* " in
  *' ControlMaster=yes '*) [ -e '${hung}' ] || { : >'${hung}'; exec sleep 1000000; } ;;
esac
exec '${path.join(vm.laptop.bin, 'ssh')}' "$@"
`,
      { mode: 0o755 }
    );
    await using other = await Hub.start(vm.laptop, { remotes: { sshProgram: program } });
    await other.add();
    await vi.waitFor(() => expect(existsSync(hung)).toBe(true), { timeout: 60_000 });
    await vi.waitFor(
      async () => {
        await other.post('connect');
        expect(await other.log()).toContain('restarted');
      },
      { timeout: 60_000, interval: 500 }
    );
    // Without a further request: a slow attempt would count as hanging, and would be restarted too.
    await other.until('connected');
  });
});
