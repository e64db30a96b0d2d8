/** Four stand-in machines as the hosts of one TPU node: set up in parallel, and used as one kernel. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Remote } from '@tpulab/protocol';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type StandInVm, USER } from '../../../../tests/stand-in-vm/index.js';
import { runCommand as runNotebook } from '../../cli/run/run-command.js';
import { runCommand } from '../../cli/testing/command-line.js';
import { environmentFolder, readContext } from '../../../../machines/src/setup/host-layout.js';
import type { Hub } from '../testing/hub.js';
import { checkOf as ofSlice, StandInSlice, sliceProblem } from './testing/stand-in-slice.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = sliceProblem();
const WAIT = { timeout: 180_000, interval: 50 };
const KERNEL = 'tpulab-slice-my-tpu';
const CELL = `import jax, numpy as np
from jax.experimental import multihost_utils
print(jax.process_count(), int(multihost_utils.process_allgather(np.array([jax.process_index()])).sum()))`;

describe.skipIf(why !== null)(`a slice of four hosts${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let folder: string;
  let slice: StandInSlice;
  let vms: readonly StandInVm[];
  let hub: Hub;
  /** Path of the environment, the same on each host. */
  let environment: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    slice = await StandInSlice.start('tpu-vm', 4);
    ({ hub, vms } = slice);
    environment = `/home/${USER}/.tpulab/${environmentFolder(await readContext('jax', slice.payload))}`;
  });
  afterAll(async () => {
    await slice[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const rows = ({ stages }: Remote) =>
    stages
      .filter(({ name }) => name.startsWith('host-'))
      .map(({ title, state, detail }) => ({ title, state, detail }));

  it('names each host that is not ready, with the reason, while the first one is connected', async () => {
    const [, second, third] = vms;
    await second!.run(
      `mv ${environment} ${environment}.whole; mkdir ${environment}; touch ${environment}/tpulab.json`
    );
    await third!.machine.powerOff();
    await hub.add({ source: slice.source, install: true });
    const remote = await hub.until('connected');
    const check = ofSlice(remote);
    expect(check?.state, await hub.log()).toBe('warning');
    expect(check?.message).toMatch(
      /not offered\. Host 1: The Python of its environment \(.*\) does not work: .* Host 2: .*refused/s
    );
    expect(check?.action).toEqual({ label: 'Try again', connect: {} });
    expect(rows(remote).slice(0, 2)).toMatchObject([
      { title: `Host 1 (${USER}@${second!.network.vmAddress})`, state: 'failed' },
      { title: `Host 2 (${USER}@${third!.network.vmAddress})`, state: 'failed' }
    ]);
  });

  it('offers one kernel over all hosts when they are ready', async () => {
    const [, second, third, fourth] = vms;
    await second!.run(`rm -r ${environment}; mv ${environment}.whole ${environment}`);
    await third!.boot();
    await hub.post('connect', {});
    await vi.waitFor(
      async () => expect(ofSlice(await hub.remote())?.state, await hub.log()).toBe('ok'),
      WAIT
    );
    const remote = await hub.until('connected');
    expect(rows(remote)).toMatchObject(
      [second, third, fourth].map(vm => ({ state: 'done', detail: vm!.destination }))
    );
    const { body } = await hub.rest('GET', '/machines/vm/api/kernelspecs');
    const { kernelspecs } = body as { kernelspecs: Record<string, { spec: { display_name: string } }> };
    expect(kernelspecs[KERNEL]?.spec.display_name).toBe('JAX · my-tpu (4 hosts)');
  });

  /** The output of the cell on the kernel of the slice, or its error. */
  async function runCell(): Promise<string> {
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
      // As in shipped notebooks; on a slice this selects the kernel over all hosts.
      kernelspec: { name: 'tpulab-jax', display_name: 'JAX' },
      language_info: { name: 'python' }
    };
    await writeFile(file, JSON.stringify({ cells: [cell], metadata, nbformat: 4, nbformat_minor: 5 }));
    const run = (how: string) =>
      runCommand(
        streams => runNotebook(streams, () => undefined),
        ...[file, '--on', 'vm', how, '--json', '--state-dir', hub.bridge.folder]
      );
    const started = await run('--detach');
    const { error } = started.error === null ? await run('--attach') : started;
    const ran = JSON.parse(await readFile(file, 'utf8')) as {
      cells: [{ outputs: { text?: string[]; evalue?: string }[] }];
    };
    const [output] = ran.cells[0].outputs;
    return (
      output?.evalue ?? (output?.text === undefined ? (error?.message ?? '') : [output.text].flat().join(''))
    );
  }

  it('runs a cell on all hosts', async () => {
    expect(await runCell(), await hub.log()).toBe('4 6\n');
  });

  it(
    'sets up a host again that was recreated under its name, and reports that',
    { tags: ['long'] },
    async () => {
      await vms[1]!.machine.powerOff();
      expect(await runCell()).toMatch(/^Host 1 \(.*\) could not be reached: /);
      await vi.waitFor(async () => expect(ofSlice(await hub.remote())?.state).toBe('warning'), WAIT);
      await slice.recreate(1);
      await vi.waitFor(
        async () => expect(ofSlice(await hub.remote())?.state, await hub.log()).toBe('ok'),
        WAIT
      );
      expect(ofSlice(await hub.remote())?.message).toContain(
        'Host 1 was recreated and has been set up. Restart its kernel to use all hosts.'
      );
      expect(await runCell(), await hub.log()).toBe('4 6\n');
    }
  );

  it('accepts the key of the first host for one program only, and removes it with everything else', async () => {
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
