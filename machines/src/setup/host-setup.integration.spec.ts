/**
 * Sets up a host from an empty home folder, without Node and without a matching Python, up to a running kernel. Node, uv
 * and the kernel are the real ones; only the Python build is made from a Python of this machine, because the real builds
 * are not on a package index. The environment has no JAX; the specs of the packages create the environment with JAX.
 */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { FakeMachine } from '../../../kernel-bridge/src/devices/testing/fake-machine.js';
import { GENERATIONS } from '../../../kernel-bridge/src/devices/testing/traces.js';
import { canSignal } from '@tpulab/platform/process-identity.js';
import { makeBundle, otherVersion, UV } from './testing/bundles.js';
import type { PreparedHost } from '../machine.js';
import { requestOnSocket } from './testing/gateway-on-socket.js';
import { CutError, LocalHost, networkVariables, oldPython } from './testing/local-shell.js';
import { pythonBuild, wholePython } from './testing/python-build.js';
import { uvCache, WatchedSetup } from './testing/watched-setup.js';
import { checkRemoteHost } from './host-setup.js';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 240_000 });

/** These specs are skipped if uv is not set up, or if there is no Python 3.12 from which a build can be made. */
const PREFIX = existsSync(UV) ? await wholePython() : null;
const DONE = ['check', 'node', 'bridge', 'uv', 'python', 'environment', 'gateway'];

let folder: string;
let payload: string;
let cache: string;
let python: Readonly<Record<string, string>>;

beforeAll(async () => {
  if (PREFIX === null) return;
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-setup-'));
  cache = path.join(folder, 'cache');
  payload = await makeBundle(path.join(folder, 'bundle'));
  python = await pythonBuild(PREFIX, path.join(folder, 'python'));
});
afterAll(async () => {
  if (PREFIX !== null) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
});

/** A host whose uv shares the download cache with this machine, so that little is downloaded again. */
async function newHost(env: Readonly<Record<string, string>> = {}): Promise<LocalHost> {
  const host = await LocalHost.make({ python: oldPython(), env: { ...networkVariables(), ...env } });
  await mkdir(path.join(host.home, '.tpulab', 'cache'), { recursive: true });
  await symlink(await uvCache(), path.join(host.home, '.tpulab', 'cache', 'uv'));
  return host;
}

describe.runIf(PREFIX !== null)('a host that is used for a long time', () => {
  let host: LocalHost;
  /** The gateway that currently runs on the host. */
  let running: PreparedHost;
  let keeper: { readonly pid: number; readonly kernelPid: number };

  beforeAll(async () => {
    host = await newHost(python);
  });
  afterAll(() => host[Symbol.asyncDispose]());

  it('gets everything that a kernel needs, and keeps its kernels when another version is installed', async () => {
    const first = new WatchedSetup(host, { payload, cache });
    const prepared = await first.prepare('plain');
    expect(first.ends).toEqual(DONE.map(name => `${name} done`));
    expect(first.detailOf('node')).toContain('downloaded by the machine');
    expect(first.detailOf('python')).toBe('our own');
    expect(first.checks.filter(({ state }) => state === 'failed')).toEqual([]);
    const health = await requestOnSocket(prepared, 'GET', '/bridge/v1/health');
    expect(health.body).toMatchObject({ gatewayId: prepared.gatewayId, version: prepared.version });
    expect(first.log.join('\n')).not.toContain(prepared.token);

    const second = new WatchedSetup(host, { payload, cache });
    let scripts = 0;
    host.onCall = () => {
      scripts++;
    };
    expect(await second.prepare('plain')).toEqual(prepared);
    expect(scripts).toBe(1);
    expect(second.ends).toEqual(['check done', ...DONE.slice(1).map(name => `${name} skipped`)]);

    const started = await requestOnSocket(prepared, 'POST', '/api/kernels', { name: 'tpulab-plain' });
    expect(started.status).toBe(201);
    const { id } = started.body as { id: string };
    const record = path.join('.tpulab', 'state', 'kernels', id, 'keeper.json');
    keeper = JSON.parse(await host.read(record)) as typeof keeper;

    const newer = new WatchedSetup(host, {
      payload: await otherVersion(payload, path.join(folder, 'newer')),
      cache
    });
    running = await newer.prepare('plain');
    expect(newer.ends).toContain('bridge done');
    expect(newer.ends).toContain('environment skipped');
    expect(newer.ends).toContain('gateway done');
    expect(running.gatewayId).not.toBe(prepared.gatewayId);
    expect(await host.list('.tpulab/versions')).toHaveLength(2);
    await vi.waitFor(
      async () => {
        const { body } = await requestOnSocket(running, 'GET', `/api/kernels/${id}`);
        expect(body).toMatchObject({ id, execution_state: 'idle' });
      },
      { timeout: 60_000 }
    );
    expect(canSignal(keeper.kernelPid)).toBe(true);
  });

  it('gets a new environment after chips were added, and needs the space for it', async () => {
    await using machine = await FakeMachine.make();
    const record = async (): Promise<unknown> => {
      const [environments] = await host.list('.tpulab/envs');
      return JSON.parse(await host.read(`.tpulab/envs/${environments}/tiny/tpulab.json`));
    };
    const setup = (root: string) => new WatchedSetup(host, { payload, cache, root });
    const before = setup('');
    // With packages that a person had added on an earlier machine; one that cannot be installed does not affect the others.
    await before.prepare('tiny', false, ['six==1.17.0', 'six==', '--index-url=http://127.0.0.1:9']);
    expect(before.detailOf('environment')).toBe('for the CPU');
    expect(await record()).toMatchObject({ added: ['six==1.17.0'] });

    await machine.addChips(GENERATIONS.find(({ name }) => name === 'v5e')!);
    const withChips = setup(machine.root);
    await withChips.prepare('tiny');
    expect(withChips.detailOf('environment')).toBe('for TPU');
    expect(await record()).toMatchObject({ accelerator: 'tpu', added: ['six==1.17.0'] });
    // After chips were removed, the environment stays, because it reports that instead of computing on the CPU.
    for (const root of [machine.root, '']) {
      const again = setup(root);
      running = await again.prepare('tiny');
      expect(again.ends).toContain('environment skipped');
    }
    expect(await record()).toMatchObject({ accelerator: 'tpu' });

    const wanted = { environment: 'plain', signal: new AbortController().signal };
    const states = async (root: string) => {
      const checks = await checkRemoteHost(host.shell, wanted, { payload, root });
      return checks.find(({ name }) => name === 'disk')?.state;
    };
    expect(await states('')).toBe('ok');
    expect(await states(machine.root)).toBe('failed');
  });

  it('can be cleaned: none of our files remains, and nothing runs', async () => {
    expect([keeper.pid, keeper.kernelPid].filter(canSignal)).toHaveLength(2);
    await new WatchedSetup(host, { payload, cache }).clean();
    expect(await host.list('.')).not.toContain('.tpulab');
    await vi.waitFor(() => expect([keeper.pid, keeper.kernelPid].filter(canSignal)).toEqual([]), {
      timeout: 60_000
    });
    await expect(requestOnSocket(running, 'GET', '/bridge/v1/health')).rejects.toThrow();
  });
});

describe.runIf(PREFIX !== null)('a new host', () => {
  it('resumes wherever the connection broke', { tags: ['long'] }, async () => {
    await using host = await newHost(python);
    for (const [at, name] of DONE.entries()) {
      if (name === 'check') continue;
      const broken = new WatchedSetup(host, { payload, cache });
      let isDue = false;
      broken.onStage = stage => (isDue = stage.name === name && stage.state === 'running');
      const cuts: NodeJS.Timeout[] = [];
      host.onCall = () => {
        // Cut in the middle of the stage's work; running programs are ended as sshd ends them.
        if (isDue) cuts.push(setTimeout(() => host.cut(), 30));
      };
      await expect(broken.prepare('tiny'), name).rejects.toThrow(CutError);
      // A stage with several calls has a cut for each, and the next attempt has none of them.
      for (const cut of cuts) clearTimeout(cut);
      expect(broken.ends.at(-1)).toBe(`${name} failed`);
      for (const before of DONE.slice(1, at)) expect(broken.ends).not.toContain(`${before} failed`);
    }
    host.onCall = () => undefined;
    const old = path.join(host.home, '.tpulab', 'versions', '0.0.1-old');
    await mkdir(old, { recursive: true });
    const longAgo = Date.now() / 1000 - 30 * 24 * 3600;
    await utimes(old, longAgo, longAgo);
    const tools = await host.list('.tpulab/tools');
    for (const tool of tools) await utimes(path.join(host.home, '.tpulab', 'tools', tool), longAgo, longAgo);
    await mkdir(path.join(host.home, '.tpulab', 'versions', '0.0.2-new'));
    // Copies from two other laptops: one never returned, and one is about to resume, with a folder of the same age.
    const incoming = path.join(host.home, '.tpulab', 'incoming');
    for (const [name, isRemoved] of [
      ['gone', true],
      ['slow', false]
    ] as const) {
      const part = path.join(incoming, name, 'bridge.tar.gz.part');
      await mkdir(path.dirname(part));
      await writeFile(part, 'half');
      if (isRemoved) await utimes(part, longAgo, longAgo);
      await utimes(path.dirname(part), longAgo, longAgo);
    }
    const last = new WatchedSetup(host, { payload, cache });
    const prepared = await last.prepare('tiny');
    expect((await requestOnSocket(prepared, 'GET', '/bridge/v1/health')).status).toBe(200);
    const versions = await host.list('.tpulab/versions');
    expect(versions).not.toContain('0.0.1-old');
    expect(versions).toHaveLength(2);
    expect(await host.list('.tpulab/incoming')).toEqual(['slow']);
    expect(await host.list('.tpulab/tools')).toEqual(tools);
    await last.clean();
  });

  it(
    'is set up once for two laptops at the same time, and two with different versions never replace each other in turn',
    { tags: ['long'] },
    async () => {
      await using host = await newHost(python);
      const both = ['one', 'other'].map(sender => new WatchedSetup(host, { payload, cache }, sender));
      const [one, other] = await Promise.all(both.map(each => each.prepare('tiny')));
      expect(one).toEqual(other);

      // The other laptop is updated. The laptop with the older version then leaves the gateway alone, however often it tries.
      const newer = await otherVersion(payload, path.join(folder, 'much-newer'), '99.0.0');
      const updated = new WatchedSetup(host, { payload: newer, cache }, 'other');
      const after = await updated.prepare('tiny');
      expect(after.gatewayId).not.toBe(one!.gatewayId);
      const older = new WatchedSetup(host, { payload, cache }, 'one');
      for (const attempt of ['once', 'again']) {
        await expect(older.prepare('tiny'), attempt).rejects.toMatchObject({
          code: 'setup_other_build',
          message: expect.stringContaining('TPULab 99.0.0') as string
        });
        const { body } = await requestOnSocket(after, 'GET', '/bridge/v1/health');
        expect(body).toMatchObject({ gatewayId: after.gatewayId });
      }

      // Until a person insists: then the newer version waits for a person too.
      const taken = await older.prepare('tiny', true);
      await expect(updated.prepare('tiny')).rejects.toMatchObject({ code: 'setup_other_build' });
      const { body } = await requestOnSocket(taken, 'GET', '/bridge/v1/health');
      expect(body).toMatchObject({ gatewayId: taken.gatewayId });
      await updated.prepare('tiny', true);
      await expect(older.prepare('tiny')).rejects.toMatchObject({ code: 'setup_other_build' });
      await updated.clean();
    }
  );

  it('gets its files from here when it cannot reach a package index', { tags: ['long'] }, async () => {
    const closed = 'http://127.0.0.1:9';
    await using host = await newHost({
      HTTPS_PROXY: closed,
      HTTP_PROXY: closed,
      UV_HTTP_RETRIES: '0',
      ...python
    });
    // uv's cache is missing, too.
    await rm(path.join(host.home, '.tpulab', 'cache', 'uv'));
    const setup = new WatchedSetup(host, { payload, cache });
    const prepared = await setup.prepare('tiny');
    expect(setup.detailOf('node')).toContain('sent from this computer');
    expect(setup.detailOf('uv')).toContain('sent from this computer');
    const { body } = await requestOnSocket(prepared, 'GET', '/bridge/v1/environments');
    expect(body).toContainEqual(expect.objectContaining({ name: 'tiny', state: 'ready' }));
    expect(await readFile(path.join(host.home, '.tpulab/state/gateway.err'), 'utf8')).toBe('');
    await setup.clean();
  });
});
