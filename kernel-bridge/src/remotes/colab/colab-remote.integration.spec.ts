/**
 * A Colab runtime as a remote, through the stand-in for `colab` and the sshd of a stand-in VM: from accepting the terms to the
 * end.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  ColabAccount as StandInAccount,
  StandInVm,
  unavailableReason
} from '../../../../tests/stand-in-vm/index.js';
import { bridgeBuild } from '../../faults/testing/bridge-build.js';
import { NumberedClient } from '../../faults/testing/numbered-client.js';
import { marksOf, numberedCell } from '../../faults/testing/numbered-output.js';
import { ON_COLAB, Reader } from '../../cli/testing/documented-commands.js';
import { InstalledSetup } from '../../../../machines/src/setup/installed-setup.js';
import { Hub } from '../testing/hub.js';
import { ColabAccount } from '../../../../machines/src/colab/colab-account.js';
import { colabOnPath } from '../../../../machines/src/colab/colab-command.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();
const COUNT = 20;
/** Replaces `/content`: the root directory of the stand-in VM is the root directory of this machine. */
const CONTENT = '/opt/content';

describe.skipIf(why !== null)(`a Colab runtime${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let vm: StandInVm;
  let google: StandInAccount;
  let hub: Hub;
  let kernelId: string;

  beforeAll(async () => {
    vm = await StandInVm.start({ root: true, initEnv: { TPU_STAND_IN: 'one two', SECRET_OF_COLAB: 'x' } });
    const folder = path.join(vm.folder, 'google');
    await mkdir(folder);
    google = await StandInAccount.make(folder);
    await google.answer({
      newer: '0.7.6',
      balance: 8.8,
      vm: { host: vm.network.vmAddress, port: 22, authorizedKeys: vm.rootKeys }
    });
    const colab = new ColabAccount(colabOnPath(google.program), async () => true, CONTENT);
    await vm.machine.run(`mkdir ${CONTENT}`);
    // Other specs test the installation.
    const setup = new InstalledSetup();
    hub = await Hub.start(vm.laptop, { remotes: { colab, colabBalanceMs: 1_000, setup } });
  });
  afterAll(async () => {
    await hub[Symbol.asyncDispose]();
    await vm[Symbol.asyncDispose]();
  });

  async function agree(): Promise<void> {
    const { prompt } = await hub.until('waiting', 'colab');
    const answer = await hub.post('answer', { id: prompt!.id, value: true }, 'colab');
    expect(answer.status).toBe(200);
  }

  async function tpulab(...args: string[]): Promise<string> {
    const given = [await bridgeBuild(), ...args, '--state-dir', hub.bridge.folder];
    return (await promisify(execFile)(process.execPath, given)).stdout;
  }

  /** Runs a cell to its end; returns the score of the output that arrived. */
  async function runCell(): Promise<object> {
    const started = await hub.rest('POST', '/machines/colab/api/kernels', { body: { name: 'lossless' } });
    kernelId = (started.body as { id: string }).id;
    using client = await new NumberedClient({
      kind: 'ours',
      kernelId,
      url: () => `${hub.bridge.url}machines/colab/`
    }).connect();
    client.execute(numberedCell({ count: COUNT, perSecond: 200, witness: '/root/witness' }));
    await client.until(() => client.isAnswered && client.greatest === COUNT - 1, 'for the last number');
    return marksOf(COUNT, client.shown);
  }

  it('is created after the terms, and runs a first cell as root with the variables of its container', async () => {
    const source = { kind: 'colab', accelerator: 'v5e1' };
    await hub.add({ name: 'colab', source });
    const { prompt } = await hub.until('waiting', 'colab');
    expect(prompt).toMatchObject({ kind: 'consent', consent: { accept: 'Create runtime' } });
    expect(await google.calls('new')).toEqual([]);
    await agree();
    const remote = await hub.until('connected', 'colab');
    expect(remote.checks).toMatchObject([{ name: 'compute-units', state: 'ok' }]);
    expect(remote.stages.filter(({ state }) => state !== 'done')).toEqual([]);
    expect(await runCell()).toMatchObject({ lost: 0, doubled: 0, reordered: 0 });
    const folders = await vm.machine.run(
      'for pid in $(pgrep -f tpulab.launcher); do readlink /proc/$pid/cwd; done'
    );
    expect(folders.split('\n')).toContain(CONTENT);
    const variables = await vm.machine.run(
      "for pid in $(pgrep -f 'tpulab.* serve'); do tr '\\0' '\\n' < /proc/$pid/environ; done"
    );
    expect(variables).toContain('TPU_STAND_IN=one two');
    expect(variables).not.toContain('SECRET_OF_COLAB');
    expect(await hub.log('colab')).not.toMatch(/oauth2|BEGIN OPENSSH|proxy-token/);
  });

  it('shows the remaining balance while it is connected, and warns before the balance is used up', async () => {
    const left = async (): Promise<object | undefined> =>
      (await hub.remote('colab')).checks.find(({ name }) => name === 'compute-units');
    expect(await left()).toMatchObject({
      state: 'ok',
      message: expect.stringContaining('about 5 h') as string
    });
    await google.answer({ balance: 1.5 });
    await vi.waitFor(
      async () =>
        expect(await left()).toMatchObject({
          state: 'warning',
          message: expect.stringContaining('1.5') as string
        }),
      { timeout: 60_000, interval: 50 }
    );
    await google.answer({ balance: 8.8 });
    await vi.waitFor(async () => expect(await left()).toMatchObject({ state: 'ok' }), { timeout: 60_000 });
    const described = await tpulab('machine', 'describe', 'colab');
    expect(described).toMatch(/ok: .* compute units left/);
    // While Colab cannot be queried, the last known balance stays.
    await google.answer({ usageFails: 'Internal Server Error' });
    const requested = (await google.calls('usage')).length;
    await vi.waitUntil(async () => (await google.calls('usage')).length > requested + 1, { timeout: 60_000 });
    expect(await left()).toMatchObject({ state: 'ok' });
    await google.answer({ usageFails: null });
    await hub.post('disconnect', undefined, 'colab');
    const before = (await google.calls('usage')).length;
    expect((await hub.remote('colab')).state).toBe('disconnected');
    expect((await google.calls('usage')).length).toBe(before);
    await hub.post('connect', undefined, 'colab');
    await hub.until('connected', 'colab');
  });

  it(
    'has a folder where kernels start, unless another one is named, and notebooks run there',
    { tags: ['long'] },
    async () => {
      const project = path.join(vm.folder, 'project');
      await mkdir(project);
      await writeFile(path.join(project, 'data.csv'), '1,2');
      const copied = (to: string): string => `1 file, 3 bytes copied to colab:${to}.\n`;
      expect(await tpulab('copy', 'push', 'colab', project)).toBe(copied(`${CONTENT}/project`));
      expect(await tpulab('copy', 'push', 'colab', project, '--to', 'a/b')).toBe(copied(`${CONTENT}/a/b`));
      expect(await tpulab('copy', 'push', 'colab', project, '--to', '~/b')).toBe(copied('/root/b'));
      expect(await tpulab('copy', 'pull', 'colab', `${project}/b`, '--from', '~/b')).toContain(
        '1 file, 3 bytes'
      );
      const lines = ['import os', 'print(os.getcwd(), open("project/data.csv").read())'];
      const cell = { cell_type: 'code', id: 'a', metadata: {}, source: lines.join('\n'), outputs: [] };
      const notebook = path.join(vm.folder, 'run.ipynb');
      await writeFile(
        notebook,
        JSON.stringify({
          cells: [{ ...cell, execution_count: null }],
          metadata: {},
          nbformat: 4,
          nbformat_minor: 5
        })
      );
      await tpulab('execute', notebook, '--on', 'colab');
      expect(await readFile(notebook, 'utf8')).toContain(`${CONTENT} 1,2`);
      // The page starts a kernel for a folder that it has synced.
      const body = { name: 'lossless', path: `${CONTENT}/project/train.ipynb` };
      const started = await hub.rest('POST', '/machines/colab/api/kernels', { body });
      expect(started.status).toBe(201);
      const folders = await vm.machine.run(
        'for pid in $(pgrep -f tpulab.launcher); do readlink /proc/$pid/cwd; done'
      );
      expect(folders.split('\n')).toContain(`${CONTENT}/project`);
      const { id } = started.body as { id: string };
      expect((await hub.rest('DELETE', `/machines/colab/api/kernels/${id}`)).status).toBe(204);
    }
  );

  it('continues while it is disconnected, is found again without a prompt, and is not forgotten while it runs', async () => {
    await hub.post('disconnect', undefined, 'colab');
    expect(await google.running()).toHaveLength(1);
    expect(await hub.rest('DELETE', '/bridge/v1/machines/colab')).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('--stop') as string }
    });
    await hub.post('connect', undefined, 'colab');
    await hub.until('connected', 'colab');
    expect(await google.calls('new')).toHaveLength(1);
  });

  it('reports that it was reclaimed, keeps its outputs here, and offers a new one', async () => {
    await vi.waitFor(async () => {
      const { mirror } = await hub.remote('colab');
      expect([mirror.kernels > 0, mirror.behindBytes]).toEqual([true, 0]);
    }, 60_000);
    await google.reclaim();
    const { error } = await hub.until('preempted', 'colab');
    expect(error).toMatchObject({ code: 'colab_reclaimed' });
    const outputs = await hub.rest('GET', `/bridge/v1/machines/colab/mirror/${kernelId}/outputs`);
    expect(JSON.stringify(outputs.body)).toContain(String(COUNT - 1));
    expect(await google.running()).toEqual([]);
    // The next runtime is another machine, with another host key, and perhaps an sshd that forwards no sockets.
    await vm.changeHostKey();
    await vm.configureSshd('AllowStreamLocalForwarding no');
    await hub.post('connect', undefined, 'colab');
    await agree();
    await hub.until('connected', 'colab');
    expect(await runCell()).toMatchObject({ lost: 0, doubled: 0, reordered: 0 });
    expect(await hub.log('colab')).toContain('using a port on its loopback interface');
  });

  it('ends with "tpulab disconnect --stop", which verifies that it has ended', async () => {
    expect(await google.running()).toHaveLength(1);
    expect(await tpulab('disconnect', 'colab', '--stop')).toContain('its Colab runtime has ended');
    expect(await google.running()).toEqual([]);
    expect(await hub.remote('colab')).toMatchObject({ state: 'disconnected', error: null });
    expect((await hub.rest('DELETE', '/bridge/v1/machines/colab')).status).toBe(204);
  });

  describe('as documented', () => {
    let reader: Reader;
    let folder: string;

    beforeAll(async () => {
      folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
      reader = await Reader.make({
        folder,
        program: await bridgeBuild(),
        path: `${path.dirname(google.program)}${path.delimiter}${vm.laptop.path}`,
        home: vm.laptop.home,
        stateDir: hub.bridge.folder
      });
    });
    afterAll(() => rm(folder, { recursive: true }));

    it.each(ON_COLAB)('$line', async step => {
      const { code, output } = await reader.type(step);
      expect(output).toMatch(step.shows);
      expect(code).toBe(0);
      // Each runtime is a different machine.
      if (step.line.includes('--stop')) await vm.changeHostKey();
    });
  });
});
