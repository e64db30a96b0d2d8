import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { ChipTable } from '../chips/chip-table.js';
import { FakeMachine } from '../../../kernel-bridge/src/devices/testing/fake-machine.js';
import { GENERATIONS } from '../../../kernel-bridge/src/devices/testing/traces.js';
import { type CheckContext, checkHost, chipNames, hasChips } from './host-checks.js';
import { script } from './host-scripts.js';
import { type HostFacts, parseFacts } from './probe-script.js';

const run = promisify(execFile);
const chips = new ChipTable();

/** Runs the real script with the real sh, on a folder that resembles a machine. */
async function probe(root: string, ...parts: string[]): Promise<HostFacts> {
  const home = await mkdtemp(path.join(tmpdir(), 'tpl-home-'));
  try {
    const { stdout } = await run('sh', ['-c', script('probe.sh'), 'sh', '.tpulab', root, ...parts], {
      env: { HOME: home, PATH: process.env['PATH'] }
    });
    return parseFacts(stdout, 'vm');
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

async function facts(change: Partial<HostFacts> = {}): Promise<HostFacts> {
  await using machine = await FakeMachine.make();
  await machine.write('proc/meminfo', 'MemTotal: 16000000 kB\nMemAvailable: 12000000 kB\n');
  return { ...(await probe(machine.root)), ...change };
}

function context(found: HostFacts, change: Partial<CheckContext> = {}): CheckContext {
  return {
    facts: found,
    chips,
    requestedAt: found.time,
    now: found.time,
    neededBytes: 0,
    environment: { name: 'jax', chips: ['v5e', 'v6e'] },
    ...change
  };
}

const of = (name: string, given: CheckContext) => checkHost(given).find(check => check.name === name);

describe('the probe', () => {
  it.each(GENERATIONS)('sees the chips of $name and who holds them', async generation => {
    await using machine = await FakeMachine.make();
    await machine.addChips(generation);
    const node = generation.node === 'accel' ? '/dev/accel0' : '/dev/vfio/10';
    if (generation.node === 'accel') await machine.write('dev/accel0', '');
    await machine.write('dev/vfio/vfio', '');
    await machine.addProcess(4711, 'python3', '/dev/null', node);
    const found = await probe(machine.root);
    expect(chipNames(found, chips)).toEqual(Array.from({ length: generation.chips }, () => generation.name));
    expect(hasChips(found, chips)).toBe(true);
    expect(found.nodes).toContain(node);
    expect(found.nodes).not.toContain('/dev/vfio/vfio');
    expect(found.holders).toMatchObject([{ pid: 4711, node, command: 'python3' }]);
  });

  it('reports who started a gateway, and for which accelerator an environment was created', async () => {
    const home = await mkdtemp(path.join(tmpdir(), 'tpl-home-'));
    const base = path.join(home, 'tpulab');
    const environment = 'envs/1/jax/tpulab.json';
    const probe = async (): Promise<HostFacts> => {
      const { stdout } = await run('sh', ['-c', script('probe.sh'), 'sh', base, home, environment], {
        env: { HOME: home, PATH: process.env['PATH'] }
      });
      return parseFacts(stdout, 'vm');
    };
    const write = async (file: string, text: string): Promise<void> => {
      await mkdir(path.dirname(path.join(base, file)), { recursive: true });
      await writeFile(path.join(base, file), text);
    };
    // A running process with our name in its command line.
    const gateway = spawn('sh', ['-c', 'read -r line', 'tpulab'], { stdio: ['pipe', 'ignore', 'ignore'] });
    try {
      await once(gateway, 'spawn');
      await write('state/gateway.json', `{"pid":${gateway.pid},"gatewayId":"g"}\n`);
      await write('state/gateway.socket', '/s\n');
      await write('state/token', 'secret\n');
      await write('state/gateway.bridge', 'versions/2-b\n');
      expect(await probe()).toMatchObject({ gateway: { bridge: 'versions/2-b', starter: null } });
      expect((await probe()).environmentFor).toBeNull();
      await write('state/gateway.starter', 'versions/1-a me no\n');
      expect((await probe()).gateway?.starter).toBeNull();
      await write('state/gateway.starter', 'versions/2-b me yes\n');
      expect((await probe()).gateway?.starter).toEqual({ sender: 'me', tookOver: true });
      await write(environment, JSON.stringify({ format: 1 }, null, 2));
      expect((await probe()).environmentFor).toBe('cpu');
      await write(environment, JSON.stringify({ format: 1, accelerator: 'tpu' }, null, 2));
      expect((await probe()).environmentFor).toBe('tpu');
    } finally {
      gateway.kill();
      await rm(home, { recursive: true, force: true });
    }
  });

  it('is not accepted as an answer if the output was cut off or comes from another program', () => {
    expect(() => parseFacts('Welcome!\nsystem\tLinux\n', 'vm')).toThrow(/start-up files/);
    expect(() => parseFacts('', 'vm')).toThrow(expect.objectContaining({ code: 'setup_host_garbled' }));
  });
});

describe('the checks of a host', () => {
  it('find nothing wrong with a suitable machine', async () => {
    const states = new Set(checkHost(context(await facts())).map(({ state }) => state));
    expect(states).not.toContain('failed');
  });

  it.each([
    ['architecture', { machine: 'armv7l' }, 'x86_64'],
    ['architecture', { system: 'Darwin' }, 'Linux'],
    ['glibc', { glibc: [2, 17] }, 'Ubuntu'],
    ['glibc', { glibc: null }, 'glibc'],
    ['programs', { programs: new Set(['tar']) }, 'apt-get install'],
    ['disk', { isWritable: false }, 'read-only']
  ] as const)('refuse a wrong %s, with the remedy', async (name, change, remedy) => {
    const check = of(name, context(await facts(change)));
    expect(check?.state).toBe('failed');
    expect(check?.remedy).toContain(remedy);
  });

  it('require the space that is still needed, and none when everything is installed', async () => {
    const found = await facts({ diskFreeBytes: 2 ** 30 });
    expect(of('disk', context(found, { neededBytes: 2 ** 31 }))).toMatchObject({
      state: 'failed',
      message: expect.stringContaining('2.0 GiB needed') as string
    });
    expect(of('disk', context(found))?.state).toBe('ok');
  });

  it.each([
    [3, 'ok'],
    [-60, 'warning'],
    [3600, 'warning'],
    [90_000, 'failed']
  ] as const)('judge a clock that is %i s off: %s', async (off, state) => {
    const found = await facts();
    expect(of('clock', context(found, { requestedAt: found.time - off, now: found.time - off }))?.state).toBe(
      state
    );
  });

  it('report nothing against a clock that was read at an unknown time of a slow check', async () => {
    const found = await facts();
    const slow = context(found, { requestedAt: found.time - 40, now: found.time + 40 });
    expect(of('clock', slow)?.state).toBe('ok');
  });

  it('refuse a folder where no program can run, and one where no file can be created, with the remedy', async () => {
    const found = await facts();
    const noexec = of('disk', context({ ...found, noexec: '/home' }));
    expect(noexec).toMatchObject({ state: 'failed' });
    expect(noexec?.message).toContain('noexec (/home)');
    expect(noexec?.remedy).toContain('remount,exec /home');
    const full = of('disk', context({ ...found, inodesFree: 17 }, { neededBytes: 1 }));
    expect(full?.message).toContain('17 files');
    const none = of('disk', context({ ...found, inodesFree: 0 }, { neededBytes: 1 }));
    expect(none?.message).toContain('only 0 files');
    expect(found.noexec).toBeNull();
  });

  it('report that kernels run on the CPU without chips, and the suitable environment with chips', async () => {
    const none = await facts();
    expect(of('chips', context(none))?.message).toContain('kernels run on the CPU');
    expect(of('chips in use', context(none))).toBeUndefined();
    const v5p = await facts({
      pciDevices: [{ address: '0000:00:04.0', device: '0x0062', subsystem: null, node: '/dev/vfio/0' }],
      nodes: ['/dev/vfio/0'],
      holders: [{ pid: 7, user: 'ada', node: '/dev/vfio/0', command: 'python3' }]
    });
    expect(of('chips', context(v5p))).toMatchObject({ state: 'ok', message: '1 × v5p' });
    expect(of('chips in use', context(v5p))?.message).toBe('held by python3 7 of ada');
    expect(of('environment', context(v5p))).toMatchObject({ state: 'warning' });
    const fits = context(v5p, { environment: { name: 'jax', chips: ['v5p'] } });
    expect(of('environment', fits)).toMatchObject({ state: 'ok', message: 'jax supports v5p' });
    const forCpu = context(v5p, { environment: { name: 'torch-xla', chips: null } });
    expect(of('environment', forCpu)?.remedy).toContain('--environment jax');
  });

  it('advise lingering where the system ends programs at logout', async () => {
    expect(of('log-out', context(await facts({ lingers: null })))).toBeUndefined();
    expect(of('log-out', context(await facts({ lingers: true })))?.state).toBe('ok');
    expect(of('log-out', context(await facts({ lingers: false, user: 'ada' })))?.remedy).toContain(
      'loginctl enable-linger ada'
    );
  });
});
