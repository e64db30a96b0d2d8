import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { RemotePrompt } from '@tpulab/protocol';
import {
  computeDryRun,
  queuedResource,
  StandInVm,
  tpuDryRun,
  tpuNode,
  USER,
  unavailableReason
} from '../../../../tests/stand-in-vm/index.js';
import { bridgeBuild } from '../../faults/testing/bridge-build.js';
import type { HostSetup } from '../../../../machines/src/machine.js';
import { InstalledSetup } from '../../../../machines/src/setup/installed-setup.js';
import { FakeMachine } from '../../devices/testing/fake-machine.js';
import { Hub } from '../../remotes/testing/hub.js';
import { type Ran, runCommand } from '../testing/command-line.js';
import { ON_A_VM, Reader } from '../testing/documented-commands.js';
import type { Streams } from '../output.js';
import { holdersCommand } from '../devices/holders-command.js';
import { connectCommand } from './connect-command.js';
import { sourceOf } from './connect-target.js';
import { remotesCommand } from './remotes-command.js';
import { sshCommand, sshConfigCommand } from './ssh-config-command.js';
import { pullCommand, pushCommand } from './sync-command.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();

describe('a target', () => {
  it.each([
    ['me@host', { kind: 'ssh', destination: 'me@host' }],
    ['gcloud:my-tpu', { kind: 'gcloud', product: 'tpu-vm', name: 'my-tpu', zone: 'us-east5-b' }],
    ['gcloud:instance/eu/x', { kind: 'gcloud', product: 'instance', name: 'x', zone: 'eu' }],
    [
      'gcloud:queued-resource/q',
      { kind: 'gcloud', product: 'queued-resource', name: 'q', zone: 'us-east5-b' }
    ]
  ])('%s', (target, source) => {
    expect(sourceOf(target, { zone: 'us-east5-b' })).toEqual(source);
  });

  it.each(['gcloud:', 'gcloud:a/b/c/d', 'gcloud:my-tpu'])('%s alone is not a target', target => {
    expect(() => sourceOf(target, {})).toThrow(expect.objectContaining({ code: 'remote_target_invalid' }));
  });
});

describe('without a server', () => {
  it('the commands explain how to start one', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    for (const [make, args] of [
      [connectCommand, ['vm']],
      [remotesCommand, ['ls']]
    ] as const) {
      const { error } = await runCommand(make, ...args, '--state-dir', folder);
      expect(error).toMatchObject({ code: 'no_gateway' });
      expect(error!.message).toContain('tpulab serve');
    }
    await rm(folder, { recursive: true });
  });
});

describe.skipIf(why !== null)(`tpulab connect${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let vm: StandInVm;
  let hub: Hub;
  let here: FakeMachine;
  let requests: RemotePrompt[];
  /** Requests to the setup that installs the bridge on the host. */
  const wanted: { readonly environment: string; readonly takeOver: boolean | undefined }[] = [];

  beforeAll(async () => {
    vm = await StandInVm.start();
    const there = new InstalledSetup();
    const setup: HostSetup = {
      prepare: (shell, options) => {
        wanted.push({ environment: options.environment, takeOver: options.takeOver });
        return there.prepare(shell, options);
      },
      clean: (shell, options) => there.clean(shell, options)
    };
    here = await FakeMachine.make();
    hub = await Hub.start(vm.laptop, { machineRoot: here.root, remotes: { setup } });
  });
  beforeEach(() => (requests = []));
  afterAll(async () => {
    await hub[Symbol.asyncDispose]();
    await here[Symbol.asyncDispose]();
    await vm[Symbol.asyncDispose]();
  });

  const connect = (answer: string | boolean | null, ...args: string[]): Promise<Ran> =>
    runCommand(
      streams =>
        connectCommand(streams, async prompt => {
          requests.push(prompt);
          return answer;
        }),
      ...args,
      '--state-dir',
      hub.bridge.folder
    );
  const remotes = (...args: string[]): Promise<Ran> =>
    runCommand(remotesCommand, ...args, '--state-dir', hub.bridge.folder);

  it('passes on the questions of ssh, shows each stage, and ends when the machine is connected', async () => {
    await vm.laptop.know([], '');
    const { stdout, error } = await connect(true, 'vm', '--no-install', '--json');
    expect(error).toBeNull();
    expect(requests).toMatchObject([{ kind: 'confirm', host: 'vm' }]);
    const lines = stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line) as Record<string, unknown>);
    const stages = lines.flatMap(({ stage }) => (stage === undefined ? [] : [stage]));
    expect(stages).toContainEqual(expect.objectContaining({ name: 'ssh', title: 'SSH', state: 'done' }));
    expect(lines.at(-1)).toMatchObject({ name: 'vm', state: 'connected' });
  });

  it('a given name adds another machine, and changes nothing of a machine with the same source', async () => {
    const list = async () =>
      JSON.parse((await remotes('ls', '--json')).stdout) as { remotes: { name: string; install: boolean }[] };
    const before = (await list()).remotes;
    const more = before[0]!.install ? '--no-install' : '--install';
    expect((await connect(null, 'vm', '--name', 'second', more)).error).toBeNull();
    const [first, second] = (await list()).remotes;
    expect(first).toMatchObject({ name: 'vm', install: before[0]!.install });
    expect(second).toMatchObject({ name: 'second', install: !before[0]!.install });
    expect((await remotes('rm', 'second')).error).toBeNull();
    // Only the new one was set up.
    expect(wanted.splice(0)).toEqual([{ environment: 'jax', takeOver: false }]);
  });

  it('reuses a known machine, by its name or by its source', async () => {
    for (const target of ['vm', 'vm']) expect((await connect(null, target)).error).toBeNull();
    const { stdout } = await remotes('ls', '--json');
    expect((JSON.parse(stdout) as { remotes: unknown[] }).remotes).toHaveLength(1);
  });

  it('gives a known machine the requested setup, even while it is connected', async () => {
    expect(wanted).toEqual([]);
    for (const more of [
      ['--install', '--environment', 'torch-xla'],
      [],
      ['--environment', 'jax', '--take-over']
    ]) {
      expect((await connect(null, 'vm', ...more)).error).toBeNull();
    }
    expect(wanted).toEqual([
      { environment: 'torch-xla', takeOver: false },
      { environment: 'jax', takeOver: true }
    ]);
    expect((await connect(null, 'vm', '--no-install')).error).toBeNull();
    const { stdout } = await remotes('ls', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      remotes: [{ name: 'vm', environment: 'jax', install: false, state: 'connected' }]
    });
    expect(wanted).toHaveLength(2);
  });

  it("the holders of a machine's chips can be listed from here", async () => {
    const holders = (...args: string[]): Promise<Ran> =>
      runCommand(holdersCommand, ...args, '--state-dir', hub.bridge.folder);
    await here.write('tmp/libtpu_lockfile', '');
    await here.write('proc/locks', '');
    expect((await holders()).stdout).toContain('remove it: tpulab ps --remove-lock');
    expect((await holders('--machine', 'vm')).stdout).toBe('No TPU chips on vm.\n');
    expect((await holders('--machine', 'vm', '--end', '1')).error).not.toBeNull();
  });

  it('without a terminal, it prints the question of ssh and where to answer', async () => {
    await remotes('disconnect', 'vm');
    await vm.laptop.know([], '');
    const { error } = await connect(null, 'vm');
    expect(error).toMatchObject({ code: 'remote_question_unanswered' });
    expect(error!.message).toContain('tpulab connect vm');
    const { stdout } = await remotes('describe', 'vm');
    expect(stdout).toMatch(/vm: waiting[\s\S]*asks: [\s\S]*SHA256:/);
  });

  it("fails with the machine's reason, and the command that resolves it", async () => {
    await remotes('disconnect', 'vm');
    const { error } = await connect(false, 'vm');
    expect(error).toMatchObject({ code: 'remote_host_key_unknown' });
    expect(error!.message).toContain('$ ssh -o StrictHostKeyChecking=ask vm');
  });

  it('ssh runs a command there over the open connection, with its exit code', async () => {
    await connect(true, 'vm', '--no-install');
    const ran: { output: string; code: number } = { output: '', code: -1 };
    const ssh = (streams: Streams): Command =>
      sshCommand(streams, async (program, args) => {
        const { stdout, status } = spawnSync(program, args, { encoding: 'utf8' });
        Object.assign(ran, { output: stdout, code: status });
        return 0;
      });
    const state = ['--state-dir', hub.bridge.folder];
    expect((await runCommand(ssh, 'vm', ...state, '--', 'echo "$HOME"; exit 7')).error).toBeNull();
    expect(ran).toEqual({ output: `/home/${USER}\n`, code: 7 });
    const { stdout } = await runCommand(sshConfigCommand, 'vm', ...state);
    expect(stdout).toMatch(/^Host vm\n {2}/);
    expect(stdout).toMatch(/\n {2}HostName \S+\n[\s\S]*\n {2}ControlPath \S+\n {2}ControlMaster no\n$/);
  });

  it('a folder is copied there and back; deletions, and overwriting newer files, need a confirmation', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    const state = ['--state-dir', hub.bridge.folder];
    await writeFile(path.join(folder, 'a.txt'), '1');
    await writeFile(path.join(folder, 'b.txt'), '2');
    expect((await runCommand(pushCommand, 'vm', folder, '--to', 'pushed', ...state)).stdout).toContain(
      '2 files, 2 bytes'
    );
    await rm(path.join(folder, 'a.txt'));
    const refused = await runCommand(
      streams => pushCommand(streams, async () => null),
      'vm',
      folder,
      '--to',
      'pushed',
      '--delete',
      ...state
    );
    expect(refused.error).toMatchObject({ code: 'not_confirmed' });
    expect(refused.error!.message).toContain('delete   a.txt');
    expect((await runCommand(pullCommand, 'vm', folder, '--from', 'pushed', ...state)).error).toBeNull();
    expect(await readFile(path.join(folder, 'a.txt'), 'utf8')).toBe('1');
    // Yesterday's copy must not overwrite today's work.
    await writeFile(path.join(folder, 'a.txt'), 'newer');
    const later = new Date(Date.now() + 3_600_000);
    await utimes(path.join(folder, 'a.txt'), later, later);
    const questions: string[] = [];
    const pull = (...more: string[]): Promise<Ran> =>
      runCommand(
        streams => pullCommand(streams, async question => (questions.push(question), false)),
        ...['vm', folder, '--from', 'pushed', ...more, ...state]
      );
    expect((await pull()).error).toMatchObject({ code: 'not_confirmed' });
    expect(questions).toEqual(['On this computer: overwrite 1 file newer than the copy?']);
    expect((await pull('--dry-run')).stdout).toContain('a.txt  (1 bytes, overwrites a newer file)');
    expect(await readFile(path.join(folder, 'a.txt'), 'utf8')).toBe('newer');
    expect((await pull('--yes')).error).toBeNull();
    expect(await readFile(path.join(folder, 'a.txt'), 'utf8')).toBe('1');
    expect(questions).toHaveLength(1);
    expect(
      (await runCommand(streams => remotesCommand(streams, async () => null), 'clean', 'vm', ...state)).error
    ).toMatchObject({
      code: 'not_confirmed'
    });
    expect((await remotes('clean', 'nowhere')).error).toMatchObject({ code: 'remote_not_found' });
    expect((await remotes('ls')).stdout).toContain('connected');
    await rm(folder, { recursive: true });
  });

  it('the other commands show, end and forget a machine', async () => {
    await vm.knowHostKey();
    expect((await connect(null, 'vm')).error).toBeNull();
    expect((await remotes('ls')).stdout).toMatch(/NAME +STATE +TPU +SOURCE\nvm +connected/);
    expect((await remotes('log', 'vm')).stdout).toContain('connected');
    expect((await remotes('candidates')).stdout).toMatch(/Hosts of your ssh configuration:\n {2}vm/);
    expect((await remotes('add', 'gcloud:x', '--zone', 'z', '--name', 'other')).stdout).toContain(
      'other added'
    );
    expect((await remotes('add', 'gcloud:x', '--zone', 'z', '--name', 'other')).error).toMatchObject({
      code: 'remote_exists'
    });
    expect((await remotes('disconnect', 'vm')).stdout).toContain('vm is disconnected');
    for (const name of ['vm', 'other']) expect((await remotes('rm', name)).error).toBeNull();
    expect((await remotes('describe', 'vm')).error).toMatchObject({ code: 'remote_not_found' });
    expect((await remotes('ls')).stdout).toContain('No remotes');
  });

  describe('as documented', () => {
    let reader: Reader;
    let folder: string;

    beforeAll(async () => {
      const { laptop, network } = vm;
      const proxy = path.join(laptop.folder, 'proxy.cjs');
      await writeFile(
        proxy,
        `const socket = require('node:net').connect(22, process.argv[2]); process.stdin.pipe(socket).pipe(process.stdout);`
      );
      const reached = {
        user: USER,
        address: network.vmAddress,
        key: path.join(laptop.ssh, 'id_ed25519'),
        knownHosts: laptop.knownHosts,
        hostKeyAlias: network.vmAddress,
        isKnown: true
      };
      const throughIap = {
        ...reached,
        address: '10.202.0.7',
        proxyCommand: `${process.execPath} ${proxy} ${network.vmAddress} --listen-on-stdin`
      };
      const instances = [{ instance: 'zones/z/instances/my-group-0', instanceStatus: 'RUNNING' }];
      await laptop.answerGcloud([
        { words: ['config', 'get-value', 'compute/zone'], stdout: 'us-east5-b\n' },
        { words: ['config', 'get-value'], stdout: 'p\n' },
        { words: ['queued-resources', 'describe', 'my-queue'], stdout: queuedResource('ACTIVE') },
        { words: ['tpu-vm', 'describe', 'my-tpu'], stdout: tpuNode() },
        { words: ['instances', 'describe', 'my-tpu'], stdout: '{"status": "RUNNING"}' },
        { words: ['managed', 'list-instances', 'my-group'], stdout: JSON.stringify(instances) },
        { words: ['tpus', 'ssh', '--tunnel-through-iap', '--dry-run'], stdout: tpuDryRun(throughIap) },
        { words: ['tpus', 'ssh', '--dry-run'], stdout: tpuDryRun(reached) },
        { words: ['compute', 'ssh', '--tunnel-through-iap', '--dry-run'], stdout: computeDryRun(throughIap) },
        { words: ['compute', 'ssh', '--dry-run'], stdout: computeDryRun(reached) }
      ]);
      await laptop.configure(
        ['vm', 'my-alias'].flatMap(name => [
          `Host ${name}`,
          `  HostName ${network.vmAddress}`,
          `  User ${USER}`
        ])
      );
      await laptop.know(['vm', 'my-alias', network.vmAddress], await vm.publicHostKey());
      folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
      reader = await Reader.make({
        folder,
        program: await bridgeBuild(),
        path: laptop.path,
        home: laptop.home,
        stateDir: hub.bridge.folder,
        others: { 'me@192.0.2.7': vm.destination, PID: '4711' }
      });
    });
    afterAll(() => rm(folder, { recursive: true }));

    it.each(ON_A_VM)('$line', async step => {
      const { code, output } = await reader.type(step);
      expect(output).toMatch(step.shows);
      expect(code, output).toBe(step.code ?? 0);
    });
  });
});
