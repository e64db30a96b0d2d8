/** Logging in to a stand-in VM: keys, passphrases, passwords, host keys, and Google Cloud's way to a host. */
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  computeDryRun,
  GCLOUD_EXPIRED,
  GCLOUD_FAILURES,
  GCLOUD_OFFLINE,
  hostKeyAttributes,
  type GcloudAnswer,
  PASSWORD,
  queuedResource,
  StandInVm,
  tpuDryRun,
  tpuNode,
  USER,
  unavailableReason
} from '../../../tests/stand-in-vm/index.js';
import { Hub } from './testing/hub.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();

describe.skipIf(why !== null)(`logging in${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let vm: StandInVm;
  let hub: Hub;

  beforeAll(async () => {
    vm = await StandInVm.start({ password: true });
  });
  afterAll(async () => vm[Symbol.asyncDispose]());

  const HOST = (): string[] => ['Host vm', `  HostName ${vm.network.vmAddress}`, `  User ${USER}`];

  beforeEach(async () => {
    await vm.laptop.configure(HOST());
    await vm.authorize(await vm.laptop.publicKey());
    await vm.knowHostKey();
    hub = await Hub.start(vm.laptop);
  });
  afterEach(async () => hub[Symbol.asyncDispose]());

  describe('host keys', () => {
    it('an unknown one causes a prompt with its fingerprint; ssh remembers a yes', async () => {
      await vm.laptop.know([], '');
      await hub.add();
      const { prompt } = await hub.until('waiting');
      expect(prompt).toMatchObject({ kind: 'confirm', host: 'vm' });
      expect(prompt!.text).toMatch(/ED25519 key fingerprint is SHA256:[\w+/]+/);
      expect((await hub.post('answer', { id: 'another', value: true })).status).toBe(409);
      expect((await hub.post('answer', { id: prompt!.id, value: true })).status).toBe(200);
      await hub.until('connected');
      await hub.post('disconnect');
      await hub.post('connect');
      await hub.until('connected');
    });

    it('an unknown one that is not accepted ends the attempt, with the command to run', async () => {
      await vm.laptop.know([], '');
      await hub.add();
      const { prompt } = await hub.until('waiting');
      await hub.post('answer', { id: prompt!.id, value: false });
      const { error } = await failed();
      expect(error).toMatchObject({ code: 'remote_host_key_unknown' });
      expect(error!.command).toBe('ssh -o StrictHostKeyChecking=ask vm');
    });

    it('a changed one is refused before anything is sent, with the remedy', async () => {
      await vm.changeHostKey();
      await hub.add();
      const { error, prompt } = await failed();
      expect(error).toMatchObject({ code: 'remote_host_key_changed' });
      expect(error!.message).toMatch(/SHA256:/);
      expect(error!.command).toMatch(/^ssh-keygen -f .+known_hosts.* -R /);
      expect(prompt).toBeNull();
      await vm.knowHostKey();
      await hub.post('connect');
      await hub.until('connected');
    });

    it('a strict configuration of the user stays strict', async () => {
      await vm.laptop.know([], '');
      await vm.laptop.configure([...HOST(), '  StrictHostKeyChecking yes']);
      await hub.add();
      const { error } = await failed();
      expect(error).toMatchObject({ code: 'remote_host_key_unknown' });
    });
  });

  describe('keys and passwords', () => {
    it('a passphrase is requested, again when it was wrong, and not again for the next connection', async () => {
      await vm.authorize(await vm.laptop.makeKey('locked', 'open sesame'));
      await vm.laptop.configure(HOST(), 'locked');
      await hub.add();
      const first = (await hub.until('waiting')).prompt!;
      expect(first).toMatchObject({ kind: 'secret' });
      expect(first.text).toMatch(/passphrase for key .*locked/);
      await hub.post('answer', { id: first.id, value: 'wrong words' });
      await vi.waitFor(async () => expect((await hub.until('waiting')).prompt!.id).not.toBe(first.id), {
        timeout: 60_000
      });
      const second = (await hub.remote()).prompt!;
      await hub.post('answer', { id: second.id, value: 'open sesame' });
      const { connectedAt } = await hub.until('connected');
      await vm.machine.run('pkill -f "sshd: [a]na" || true');
      // The states in between last less than a second, and the test may miss them.
      await vi.waitFor(async () => expect((await hub.until('connected')).connectedAt).not.toBe(connectedAt), {
        timeout: 90_000,
        interval: 50
      });
      expect(await hub.log()).toContain('reconnecting: ');
      expect(await hub.log()).not.toMatch(/open sesame|wrong words/);
    });

    it('a password is requested where the machine accepts one', async () => {
      await vm.authorize();
      await hub.add();
      const { prompt } = await hub.until('waiting');
      expect(prompt).toMatchObject({ kind: 'secret' });
      expect(prompt!.text).toMatch(/password:/);
      await hub.post('answer', { id: prompt!.id, value: PASSWORD });
      await hub.until('connected');
    });

    it('no answer is a failure with the command to run', async () => {
      await vm.authorize();
      await hub.add();
      const { prompt } = await hub.until('waiting');
      await hub.post('answer', { id: prompt!.id, value: false });
      expect((await failed()).error).toMatchObject({
        code: 'remote_question_unanswered',
        command: 'ssh vm'
      });
    });

    it('a prompt for which ssh has stopped waiting can still be answered', async () => {
      await vm.authorize();
      await hub.add();
      const { prompt } = await hub.until('waiting');
      await vm.machine.run('pkill -f "sshd: [a]na" || true');
      await hub.post('answer', { id: prompt!.id, value: PASSWORD });
      await hub.until('connected');
    });

    it('a key that the machine does not know is refused, with the command that shows the reason', async () => {
      await vm.authorize(await vm.laptop.makeKey('another', ''));
      await vm.laptop.configure([...HOST(), '  PasswordAuthentication no']);
      await hub.add();
      expect((await failed()).error).toMatchObject({ code: 'remote_auth_refused', command: 'ssh vm' });
    });

    it('a machine that does not exist is reported as unreachable', async () => {
      await vm.laptop.configure(['Host vm', `  HostName ${vm.network.vmAddress}`, '  Port 9']);
      await hub.add();
      expect((await failed()).error).toMatchObject({ code: 'remote_unreachable' });
    });
  });

  describe('targets that can be connected', () => {
    it("are aliases of ssh's configuration, and a plain host", async () => {
      await vm.laptop.configure([...HOST(), 'Host other another', 'Host *.example !not', 'Match all']);
      const { body } = await hub.rest('GET', '/bridge/v1/machines/candidates');
      expect(body).toMatchObject({ sshHosts: ['vm', 'other', 'another'] });
      await hub.add({ source: { kind: 'ssh', destination: vm.destination } });
      expect(await hub.until('connected')).toMatchObject({ hosts: [vm.destination] });
    });

    it.each(['', '-q', '--account=x', 'a b'])(
      'do not include a Google Cloud project named %j',
      async project => {
        const query = new URLSearchParams({ project }).toString();
        const answer = await hub.rest('GET', `/bridge/v1/machines/candidates?${query}`);
        expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
      }
    );

    it.each(['-oProxyCommand=touch /tmp/x', 'a b', '', 'host;id'])(
      '%j is not a destination',
      async destination => {
        const body = { source: { kind: 'ssh', destination } };
        const answer = await hub.rest('POST', '/bridge/v1/machines', { body });
        expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
      }
    );
  });

  describe('Google Cloud', () => {
    const reached = (alias = 'tpu.1234-0') => ({
      user: USER,
      address: vm.network.vmAddress,
      key: path.join(vm.laptop.ssh, 'id_ed25519'),
      knownHosts: path.join(vm.laptop.ssh, 'google_compute_known_hosts'),
      hostKeyAlias: alias,
      isKnown: true
    });
    const zone = 'us-east5-b';

    async function knowAs(alias: string): Promise<void> {
      const known = (await readFile(vm.laptop.knownHosts, 'utf8')).split('\n')[0]!.replace(/^\S+/, alias);
      await writeFile(reached().knownHosts, `${known}\n`);
    }

    it('a TPU VM is reached at the address from gcloud, by our ssh, with all its hosts', async () => {
      await knowAs('tpu.1234-0');
      await vm.laptop.answerGcloud([
        { words: ['tpu-vm', 'describe', 'my-tpu'], stdout: tpuNode() },
        {
          words: ['tpu-vm', 'ssh', 'my-tpu', '--dry-run'],
          stdout: tpuDryRun(reached()) + tpuDryRun(reached('tpu.1234-1'))
        }
      ]);
      await hub.add({ source: { kind: 'gcloud', product: 'tpu-vm', name: 'my-tpu', zone, project: 'p' } });
      const remote = await hub.until('connected');
      expect(remote.hosts).toEqual([vm.destination, vm.destination]);
      const slice = (): Promise<unknown> =>
        hub.remote().then(({ checks }) => checks.find(({ name }) => name === 'slice'));
      expect(await slice()).toMatchObject({ state: 'warning', action: { connect: { hostOnly: true } } });
      await hub.post('connect', { hostOnly: true });
      await vi.waitFor(
        async () => expect(await hub.remote()).toMatchObject({ hostOnly: true, state: 'connected' }),
        {
          timeout: 90_000,
          interval: 50
        }
      );
      await vi.waitFor(
        async () => expect(await vm.run('cat ~/.local/state/tpulab/host-only')).toContain('on'),
        { timeout: 90_000, interval: 200 }
      );
      expect((await vm.laptop.gcloudCalls()).every(call => call.includes(`--zone=${zone} --project=p`))).toBe(
        true
      );
    });

    it('a TPU VM without an external address offers IAP, and is reached through it', async () => {
      await knowAs('tpu.1234-0');
      const proxy = path.join(vm.laptop.folder, 'proxy.cjs');
      await writeFile(
        proxy,
        `const socket = require('node:net').connect(process.argv[3], process.argv[2]); process.stdin.pipe(socket).pipe(process.stdout);`
      );
      const proxyCommand = `${process.execPath} ${proxy} ${vm.network.vmAddress} %p --listen-on-stdin`;
      await vm.laptop.answerGcloud([
        { words: ['queued-resources', 'describe'], stdout: queuedResource('ACTIVE') },
        {
          words: ['tpu-vm', 'describe', 'my-tpu'],
          stdout: tpuNode({ networkEndpoints: [{ ipAddress: '10.202.0.7', accessConfig: {} }] })
        },
        {
          words: ['queued-resources', 'ssh', '--tunnel-through-iap', '--dry-run'],
          stdout: tpuDryRun({ ...reached(), address: '10.202.0.7', proxyCommand })
        }
      ]);
      const source = { kind: 'gcloud', product: 'queued-resource', name: 'queue', zone };
      await hub.add({ source });
      const { error } = await failed();
      expect(error).toMatchObject({ code: 'remote_no_address' });
      await hub.post('connect', error!.action!.connect);
      const overIap = await hub.until('connected');
      expect(overIap.source).toEqual({ ...source, tunnelThroughIap: true });
      // An open connection is not closed for another access path; the next connection uses the new path.
      await hub.post('connect', { reach: 'internal' });
      expect(await hub.remote()).toMatchObject({
        state: 'connected',
        connectedAt: overIap.connectedAt,
        source: { ...source, internalIp: true }
      });
      await hub.post('connect', { reach: 'external' });
      expect((await hub.remote()).source).toEqual(source);
    });

    it('a host of ssh is reached only as ssh is configured', async () => {
      await hub.add({ connect: false });
      expect(await hub.post('connect', { reach: 'iap' })).toMatchObject({
        status: 400,
        body: { code: 'invalid_request' }
      });
      expect(await hub.remote()).toMatchObject({ state: 'disconnected' });
    });

    it('an instance, and the instances of a group', async () => {
      await knowAs('compute.99');
      const instances = ['slice-1', 'slice-0'].map(name => ({
        instance: `zones/z/instances/${name}`,
        instanceStatus: 'RUNNING'
      }));
      await vm.laptop.answerGcloud([
        { words: ['instances', 'describe'], stdout: '{"status": "RUNNING"}' },
        { words: ['managed', 'list-instances'], stdout: JSON.stringify(instances) },
        { words: ['compute', 'ssh', '--dry-run'], stdout: computeDryRun(reached('compute.99')) }
      ]);
      for (const product of ['instance', 'instance-group']) {
        await hub.add({ name: product, source: { kind: 'gcloud', product, name: 'slice', zone } });
        await hub.until('connected', product);
      }
      const calls = (await vm.laptop.gcloudCalls())
        .filter(call => call.includes('compute ssh'))
        .map(call => call.split(' ')[2]);
      expect(calls).toEqual(['slice', 'slice-0', 'slice-1']);
    });

    it.each(Object.entries(GCLOUD_FAILURES))(
      '%s is reported in a specific message, with the remedy',
      async (code, stderr) => {
        await vm.laptop.answerGcloud([{ words: ['describe'], stderr, code: 1 }]);
        await hub.add({ source: { kind: 'gcloud', product: 'tpu-vm', name: 'my-tpu', zone } });
        const { error } = await failed();
        expect(error).toMatchObject({ code });
        expect(error!.message).toContain(stderr.split('\n')[0]!.slice(0, 60));
        if (code !== 'gcloud_offline') expect(error!.command).toMatch(/^gcloud /);
      }
    );

    it('a machine named without its zone is found, and refused if it is nowhere', async () => {
      await vm.laptop.answerGcloud([
        { words: ['config', 'get-value', 'compute/zone'], stdout: '(unset)\n' },
        {
          words: ['tpu-vm', 'list'],
          stdout: JSON.stringify([{ name: `projects/p/locations/${zone}/nodes/my-tpu` }])
        },
        { words: ['tpu-vm', 'describe'], stdout: tpuNode({ state: 'STOPPED' }) }
      ]);
      const source = { kind: 'gcloud', product: 'tpu-vm', name: 'my-tpu' };
      expect((await hub.add({ source, connect: false })).source).toEqual({ ...source, zone });
      const other = { name: 'other', source: { ...source, name: 'other' } };
      expect(await hub.rest('POST', '/bridge/v1/machines', { body: other })).toMatchObject({
        status: 400,
        body: { message: expect.stringContaining('no tpu-vm named other') as string }
      });
    });

    it.each([
      ['PREEMPTED', 'preempted', 'remote_preempted'],
      ['STOPPED', 'failed', 'remote_machine_stopped']
    ] as const)('a machine that is %s', async (state, ends, code) => {
      await vm.laptop.answerGcloud([{ words: ['describe'], stdout: JSON.stringify({ state }) }]);
      await hub.add({ source: { kind: 'gcloud', product: 'tpu-vm', name: 'my-tpu', zone } });
      const remote = ends === 'failed' ? await failed() : await hub.until(ends);
      expect(remote).toMatchObject({ state: ends, error: { code } });
    });

    it('a preempted machine that is recreated under its name is connected without a question', async () => {
      await knowAs('tpu.1234-0');
      await vm.laptop.configure([...HOST(), 'Host *', '  PasswordAuthentication no']);
      await hub[Symbol.asyncDispose]();
      hub = await Hub.start(vm.laptop, { remotes: { queuePollMs: 100 } });
      await vm.laptop.answerGcloud(ready());
      await hub.add({ source: MY_TPU });
      await hub.until('connected');
      await vm.laptop.answerGcloud([{ words: ['describe'], stdout: tpuNode({ state: 'PREEMPTED' }) }]);
      await hub.post('disconnect');
      await hub.post('connect');
      expect(await hub.until('preempted')).toMatchObject({ error: { code: 'remote_preempted' } });
      await vm.laptop.answerGcloud([
        { words: ['describe'], stderr: GCLOUD_FAILURES['gcloud_not_found']!, code: 1 }
      ]);
      await vi.waitUntil(async () => (await vm.laptop.gcloudCalls()).length >= 2, { timeout: 60_000 });
      expect((await hub.remote()).state).toBe('preempted');
      const preempted = { error: { code: 'remote_preempted' } };
      const click = async () =>
        expect((await hub.post('connect')).body).toMatchObject({ state: 'connecting' });
      // A click during a check, or between two checks, neither gives up the machine nor ends the polling.
      for (let clicks = 0; clicks < 5; clicks++) {
        await click();
        expect(await hub.until('preempted')).toMatchObject(preempted);
      }
      // A silent Google Cloud is reported only after a person's request. Nothing answers at the last known address.
      await vm.authorize('');
      await vm.laptop.answerGcloud([{ words: ['describe'], stderr: GCLOUD_EXPIRED.expired, code: 1 }]);
      const before = (await vm.laptop.gcloudCalls()).length;
      await vi.waitUntil(async () => (await vm.laptop.gcloudCalls()).length >= before + 2, {
        timeout: 60_000
      });
      expect(await hub.remote()).toMatchObject({ state: 'preempted', ...preempted });
      await click();
      expect(await hub.until('preempted')).toMatchObject({ error: { code: 'gcloud_login' } });
      await vm.laptop.answerGcloud([
        { words: ['describe'], stderr: GCLOUD_FAILURES['gcloud_not_found']!, code: 1 }
      ]);
      await vi.waitFor(
        async () => expect(await hub.remote()).toMatchObject({ state: 'preempted', ...preempted }),
        {
          timeout: 60_000
        }
      );
      // If another machine of that name requires a person, the polling ends.
      await vm.laptop.answerGcloud([
        {
          words: ['describe'],
          stdout: tpuNode({ networkEndpoints: [{ ipAddress: '10.202.0.7', accessConfig: {} }] })
        }
      ]);
      expect((await failed()).error).toMatchObject({ code: 'remote_no_address' });
      await vm.laptop.answerGcloud([{ words: ['describe'], stdout: tpuNode({ state: 'PREEMPTED' }) }]);
      await hub.post('connect');
      await hub.until('preempted');
      await vm.authorize(await vm.laptop.publicKey());
      await vm.changeHostKey();
      const again = { ...reached('tpu.777-0-q2w3e4'), isKnown: false };
      await vm.laptop.answerGcloud([
        { words: ['tpu-vm', 'describe'], stdout: tpuNode({ id: '777' }) },
        { words: ['get-guest-attributes'], stdout: hostKeyAttributes(await vm.publicHostKey()) },
        { words: ['tpu-vm', 'ssh', '--dry-run'], stdout: tpuDryRun(again) }
      ]);
      // Nobody answers prompts here: with a prompt, this wait would never end.
      await hub.until('connected');
      await vm.knowHostKey();
    });

    const MY_TPU = { kind: 'gcloud', product: 'tpu-vm', name: 'my-tpu', zone };
    const ready = (): GcloudAnswer[] => [
      { words: ['describe'], stdout: tpuNode() },
      { words: ['tpu-vm', 'ssh', '--dry-run'], stdout: tpuDryRun(reached()) }
    ];

    it('a node that does not know the key gets it from gcloud, once a person requests that', async () => {
      await knowAs('tpu.1234-0');
      await vm.authorize(await vm.laptop.makeKey('another', ''));
      await vm.laptop.configure([...HOST(), 'Host *', '  PasswordAuthentication no']);
      await vm.laptop.answerGcloud([...ready(), { words: ['tpu-vm', 'ssh', '--command=true'] }]);
      await hub.add({ source: MY_TPU });
      const { error } = await failed();
      const command = `gcloud compute tpus tpu-vm ssh my-tpu --zone=${zone} --worker=0 --command=true`;
      expect(error).toMatchObject({ code: 'remote_auth_refused', command });
      await vm.authorize(await vm.laptop.publicKey());
      await hub.post('connect', error!.action!.connect);
      await hub.until('connected');
      expect((await vm.laptop.gcloudCalls()).map(call => `gcloud ${call}`)).toContain(`${command} --quiet`);
    });

    it('a queued resource is polled, even at the first connection, and connected when it is ready', async () => {
      await knowAs('tpu.1234-0');
      await hub[Symbol.asyncDispose]();
      hub = await Hub.start(vm.laptop, { remotes: { queuePollMs: 100 } });
      const waiting = [
        { words: ['queued-resources', 'describe'], stdout: queuedResource('WAITING_FOR_RESOURCES') }
      ];
      await vm.laptop.answerGcloud(waiting);
      await hub.add({ source: { ...MY_TPU, product: 'queued-resource', name: 'queue' } });
      const since = Date.parse('2026-11-22T20:00:00.000Z');
      expect(await hub.until('queued')).toMatchObject({ queue: { state: 'WAITING_FOR_RESOURCES', since } });
      await hub.post('disconnect');
      expect(await hub.remote()).toMatchObject({ state: 'disconnected', queue: null });
      await hub.post('connect');
      await hub.until('queued');
      await vm.laptop.answerGcloud([
        { words: ['queued-resources', 'describe'], stdout: queuedResource('ACTIVE') },
        { words: ['tpu-vm', 'describe'], stdout: tpuNode() },
        { words: ['queued-resources', 'ssh', '--dry-run'], stdout: tpuDryRun(reached()) }
      ]);
      await hub.until('connected');
    });

    it.each([
      ['the login has expired', GCLOUD_EXPIRED.expired, 'gcloud_login'],
      ['this computer is offline', GCLOUD_OFFLINE.refresh, 'gcloud_offline']
    ])('%s: the last known address is used, and retrying never ends', async (_what, stderr, code) => {
      await knowAs('tpu.1234-0');
      await vm.laptop.configure([...HOST(), 'Host *', '  PasswordAuthentication no']);
      await vm.laptop.answerGcloud(ready());
      await hub.add({ source: MY_TPU });
      await hub.until('connected');
      await vm.laptop.answerGcloud([{ words: ['describe'], stderr, code: 1 }]);
      await hub.post('disconnect');
      await hub.post('connect');
      await hub.until('connected');
      // A different machine may now have the address.
      await vm.authorize('');
      await hub.post('disconnect');
      await hub.post('connect');
      expect(await hub.until('reconnecting')).toMatchObject({ error: { code } });
      await vm.authorize(await vm.laptop.publicKey());
      await hub.post('connect');
      await hub.until('connected');
    });
  });

  async function failed() {
    await vi.waitFor(async () => expect((await hub.remote()).state).toBe('failed'), {
      timeout: 90_000,
      interval: 50
    });
    return hub.remote();
  }
});
