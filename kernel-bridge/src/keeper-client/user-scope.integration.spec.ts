import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { KeeperClient } from './client.js';
import { startKeeper } from './access.js';
import { GatewayView, KeeperFixture } from '../keeper/testing/keeper-fixture.js';
import { findUserScope, isLingering } from './user-scope.js';

/** Behaves like `systemd-run --scope`: becomes the given command, with the same descriptors. */
const STAND_IN = `#!/bin/sh
printf '%s\\n' "$*" >> "$CALLS"
while [ "$1" != "--" ]; do shift; done
shift
exec "$@"
`;

describe.skipIf(process.platform !== 'linux')('a keeper in a scope of systemd', () => {
  let root: string;
  let keeper: KeeperFixture;
  let client: KeeperClient | undefined;

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'tu-'));
    await mkdir(join(root, 'bin'));
    await mkdir(join(root, 'linger'));
    await writeFile(join(root, 'linger', userInfo().username), '');
    vi.stubEnv('PATH', `${join(root, 'bin')}:${process.env['PATH']}`);
    vi.stubEnv('XDG_RUNTIME_DIR', root);
    keeper = await KeeperFixture.create();
  });

  afterEach(async () => {
    await client?.[Symbol.asyncDispose]();
    await keeper[Symbol.asyncDispose]();
    client = undefined;
    vi.unstubAllEnvs();
    await rm(root, { recursive: true, force: true });
  });

  const folders = (): { systemd: string; linger: string } => ({
    systemd: root,
    linger: join(root, 'linger')
  });

  async function systemdRun(script: string): Promise<void> {
    const file = join(root, 'bin', 'systemd-run');
    await writeFile(file, script.replaceAll('$CALLS', join(root, 'calls')));
    await chmod(file, 0o755);
  }

  const calls = async (): Promise<string[]> =>
    (await readFile(join(root, 'calls'), 'utf8').catch(() => '')).split('\n').filter(line => line !== '');

  /** Starts a keeper that has run a cell. Returns the scope line of its log. */
  async function started(): Promise<string> {
    const view = new GatewayView();
    client = await startKeeper(keeper.launch, { kernelDir: keeper.kernelDir }, view, {
      entry: keeper.entry,
      systemd: folders()
    });
    view.states.push(client.snapshot);
    await client.subscribe();
    await view.untilState('idle');
    const lines = (await keeper.logs()).split('\n').filter(line => line.includes('the keeper starts'));
    expect(lines).toHaveLength(1);
    return (JSON.parse(lines[0]!) as { scope: string }).scope;
  }

  it('is started by systemd-run with a unit that names its kernel, and is the process that runs', async () => {
    await systemdRun(STAND_IN);
    const scope = await started();
    const [probe, launch, ...others] = await calls();
    expect(others).toEqual([]);
    expect(probe).toMatch(
      /^--user --scope --quiet --collect --unit=tpulab-probe-[0-9a-f]{8}\.scope -- true$/
    );
    expect(scope).toMatch(/^tpulab-kernel-kernel-[0-9a-f]{8}$/);
    expect(launch).toBe(
      `--user --scope --quiet --collect --unit=${scope}.scope -- ${process.execPath} ` +
        `${keeper.entry.pathname} start ${keeper.kernelDir} ${scope}`
    );
    expect((await readFile(`/proc/${client!.snapshot.keeperPid}/cmdline`, 'utf8')).split('\0')).toContain(
      'start'
    );
  });

  it('queries the manager once, and gives each keeper its own unit', async () => {
    await systemdRun(STAND_IN);
    await started();
    await client!.shutdown();
    await client![Symbol.asyncDispose]();
    await keeper[Symbol.asyncDispose]();
    keeper = await KeeperFixture.create();
    await started();
    const units = (await calls()).map(line => /--unit=(\S+)/.exec(line)![1]!);
    expect(units.map(unit => unit.startsWith('tpulab-probe'))).toEqual([true, false, false]);
    expect(new Set(units).size).toBe(3);
  });

  it('works without a scope when systemd-run fails, and its log contains the reason', async () => {
    await systemdRun('#!/bin/sh\necho "Failed to connect to bus" >&2\nexit 1\n');
    expect(await started()).toMatch(/^none: .*Failed to connect to bus/s);
  });

  it('starts keepers without a scope when systemd-run fails at its first use', async () => {
    await systemdRun(
      STAND_IN.replace('while', 'case "$*" in *tpulab-kernel*) echo no scope for you; exit 1;; esac\nwhile')
    );
    expect(await started()).toBe('none: systemd-run failed, see above');
    expect(await keeper.logs()).toContain('no scope for you');
  });

  it('does not wait long for a systemd-run that hangs', async () => {
    await systemdRun('#!/bin/sh\nexec sleep 600\n');
    const env = { PATH: process.env['PATH'], XDG_RUNTIME_DIR: root };
    const requested = await findUserScope({ env, folders: folders(), probeMs: 200 });
    expect(requested).toEqual({ isThere: false, why: 'systemd-run did not answer within 200 ms' });
  });

  it('works without a scope when there is no systemd-run', async () => {
    const env = { PATH: join(root, 'bin'), XDG_RUNTIME_DIR: root };
    expect(await findUserScope({ env, folders: folders() })).toEqual({
      isThere: false,
      why: 'there is no systemd-run'
    });
  });

  it('stays in the session of a user who does not linger, and on a system without systemd', async () => {
    await systemdRun(STAND_IN);
    await rm(join(root, 'linger', userInfo().username));
    expect(await started()).toBe('none: the user does not linger');
    expect(await calls()).toEqual([]);
    expect(await isLingering(folders())).toBe(false);
    expect(await isLingering({ systemd: join(root, 'nowhere') })).toBeNull();
  });

  it('leaves no process of systemd-run behind', async () => {
    await systemdRun('#!/bin/sh\necho $$ >> "$CALLS"\nexec sleep 600\n');
    const env = { PATH: process.env['PATH'], XDG_RUNTIME_DIR: `${root}/` };
    await findUserScope({ env, folders: folders(), probeMs: 500 });
    for (const pid of await calls()) {
      expect(await readdir('/proc')).not.toContain(pid);
    }
  });
});
