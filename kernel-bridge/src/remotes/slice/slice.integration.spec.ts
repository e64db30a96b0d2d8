/** Three stand-in machines as the hosts of one TPU node: set up side by side, and used as one kernel. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Remote, RemoteCheck } from '@tpulab/protocol';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  equippedHost,
  hostKeyAttributes,
  StandInVm,
  tpuDryRun,
  tpuNode,
  USER,
  whyNoStandIn
} from '../../../../tests/stand-in-vm/index.js';
import { runCommand as runNotebook } from '../../cli/run/run-command.js';
import { runCommand } from '../../cli/testing/command-line.js';
import { environmentFolder, readContext } from '../setup/host-layout.js';
import { createHostSetup } from '../setup/host-setup.js';
import { makeBundle, UV } from '../setup/testing/bundles.js';
import { Hub } from '../testing/hub.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = whyNoStandIn() ?? (existsSync(UV) ? null : 'the set-up has not been done');
const WAIT = { timeout: 180_000, interval: 50 };
const KERNEL = 'tpulab-slice-my-tpu';
const CELL = `import jax, numpy as np
from jax.experimental import multihost_utils
print(jax.process_count(), int(multihost_utils.process_allgather(np.array([jax.process_index()])).sum()))`;

describe.skipIf(why !== null)(`a slice of three hosts${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let folder: string;
  let vms: readonly StandInVm[];
  let hub: Hub;
  /** Of the environment, on each host. */
  let environment: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tpl-slice-'));
    const payload = await makeBundle(path.join(folder, 'bundle'));
    vi.stubEnv('TPULAB_PAYLOAD', payload);
    environment = `/home/${USER}/.tpulab/${environmentFolder(await readContext('jax', payload))}`;
    const install = equippedHost(payload);
    vms = await Promise.all(
      [0, 1, 2].map(index => StandInVm.start({ hostName: `worker-${index}`, install }))
    );
    const [first, ...others] = vms;
    const { laptop } = first!;
    for (const other of others) {
      await other.authorize(await laptop.publicKey());
      await first!.network.join(other.network);
    }
    await others[0]!.network.join(others[1]!.network);
    const endpoints = vms.map(({ network }) => ({
      accessConfig: { externalIp: network.vmAddress },
      ipAddress: network.vmAddress,
      port: 8470
    }));
    const reached = vms.map(({ network }, index) =>
      tpuDryRun({
        user: USER,
        address: network.vmAddress,
        key: path.join(laptop.ssh, 'id_ed25519'),
        knownHosts: laptop.knownHosts,
        hostKeyAlias: `tpu.4242424242-${index}`
      })
    );
    const keys = await Promise.all(vms.map(vm => vm.publicHostKey()));
    await laptop.answerGcloud([
      { words: ['tpu-vm', 'describe', 'my-tpu'], stdout: tpuNode({ networkEndpoints: endpoints }) },
      { words: ['tpu-vm', 'ssh', 'my-tpu', '--worker=all', '--dry-run'], stdout: reached.join('') },
      { words: ['tpu-vm', 'get-guest-attributes', 'my-tpu'], stdout: hostKeyAttributes(...keys) }
    ]);
    const setup = createHostSetup({ payload, cache: path.join(folder, 'cache'), uv: UV });
    hub = await Hub.start(laptop, { remotes: { setup } });
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await hub[Symbol.asyncDispose]();
    await Promise.all(vms.map(vm => vm[Symbol.asyncDispose]()));
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  const ofSlice = ({ checks }: Remote): RemoteCheck | undefined =>
    checks.find(({ name }) => name === 'slice');
  const rows = ({ stages }: Remote) =>
    stages
      .filter(({ name }) => name.startsWith('host-'))
      .map(({ title, state, detail }) => ({ title, state, detail }));

  it('names each host that is not ready, and why, while the first one is connected', async () => {
    const [, second, third] = vms;
    await second!.run(
      `mv ${environment} ${environment}.whole; mkdir ${environment}; touch ${environment}/tpulab.json`
    );
    await third!.machine.powerOff();
    const source = { kind: 'gcloud', product: 'tpu-vm', name: 'my-tpu', zone: 'us-east5-b', project: 'p' };
    await hub.add({ source, install: true });
    const remote = await hub.until('connected');
    const check = ofSlice(remote);
    expect(check?.state, await hub.log()).toBe('warning');
    expect(check?.message).toMatch(
      /not offered\. Host 1: The Python of its environment \(.*\) does not work: .* Host 2: .*refused/s
    );
    expect(check?.action).toEqual({ label: 'Try again', connect: {} });
    expect(rows(remote)).toMatchObject([
      { title: `Host 1 (${USER}@${second!.network.vmAddress})`, state: 'failed' },
      { title: `Host 2 (${USER}@${third!.network.vmAddress})`, state: 'failed' }
    ]);
  });

  it('offers one kernel over all hosts when they are ready', async () => {
    const [, second, third] = vms;
    await second!.run(`rm -r ${environment}; mv ${environment}.whole ${environment}`);
    await third!.boot();
    await hub.post('connect', {});
    await vi.waitFor(
      async () => expect(ofSlice(await hub.remote())?.state, await hub.log()).toBe('ok'),
      WAIT
    );
    const remote = await hub.until('connected');
    expect(rows(remote)).toMatchObject(
      [second, third].map(vm => ({ state: 'done', detail: vm!.destination }))
    );
    const { body } = await hub.rest('GET', '/remotes/vm/api/kernelspecs');
    const { kernelspecs } = body as { kernelspecs: Record<string, { spec: { display_name: string } }> };
    expect(kernelspecs[KERNEL]?.spec.display_name).toBe('JAX · my-tpu (3 hosts)');
  });

  it('runs a cell on all hosts', async () => {
    const file = path.join(folder, 'cell.ipynb');
    const cell = {
      cell_type: 'code',
      id: 'a',
      metadata: {},
      execution_count: null,
      outputs: [],
      source: CELL
    };
    const metadata = {
      kernelspec: { name: KERNEL, display_name: KERNEL },
      language_info: { name: 'python' }
    };
    await writeFile(file, JSON.stringify({ cells: [cell], metadata, nbformat: 4, nbformat_minor: 5 }));
    const { error } = await runCommand(
      runNotebook,
      ...[file, '--on', 'vm', '--json', '--state-dir', hub.bridge.folder]
    );
    expect(error?.message ?? null, await hub.log()).toBeNull();
    const ran = JSON.parse(await readFile(file, 'utf8')) as { cells: [{ outputs: { text?: string[] }[] }] };
    expect([ran.cells[0].outputs[0]?.text].flat().join('')).toBe('3 3\n');
  });

  it('admits the key of the first host for one program, and removes it with the rest', async () => {
    const [first, second] = vms;
    const keys = await second!.run('cat ~/.ssh/authorized_keys');
    expect(keys).toMatch(
      /^restrict,port-forwarding,command="exec \S+\/bin\/python -m tpulab\.slice\.supervisor" ssh-ed25519 \S+ tpulab-slice$/m
    );
    await hub.post('clean');
    await hub.until('disconnected');
    expect(await second!.run('cat ~/.ssh/authorized_keys; ls -d ~/.tpulab || true')).not.toContain('tpulab');
    expect(await first!.run('ls ~/.local/share/jupyter/kernels')).not.toContain('slice');
  });
});
