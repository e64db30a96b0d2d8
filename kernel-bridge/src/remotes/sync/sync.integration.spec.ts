/** Folders that are synced with a stand-in VM, over the connection of its remote. */
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { SyncPlan, SyncRequest, SyncStatus } from '@tpulab/protocol';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { findProgram, StandInVm, USER, unavailableReason } from '../../../../tests/stand-in-vm/index.js';
import type { Answer } from '../../testing/temporary-gateway.js';
import { Hub } from '../testing/hub.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = unavailableReason();

/** The version output of rsync on macOS 15, which has no other rsync. */
const MAC_RSYNC = `#!/bin/sh
echo 'openrsync: protocol version 29'
echo 'rsync version 2.6.9 compatible'
`;

describe.skipIf(why !== null)(`syncing a folder${why === null ? '' : ` (skipped: ${why})`}`, () => {
  describe.skipIf(findProgram('rsync') === null)('with rsync (skipped without the program)', () =>
    syncing('rsync')
  );
  describe('with tar, where this machine has only the rsync of macOS', () => syncing('tar'));
});

function syncing(transport: 'rsync' | 'tar'): void {
  let vm: StandInVm;
  let hub: Hub;
  let folder: string;
  let number = 0;

  beforeAll(async () => {
    if (transport === 'tar') {
      const bin = await mkdtemp(path.join(tmpdir(), 'tpulab-mac-'));
      await writeFile(path.join(bin, 'rsync'), MAC_RSYNC, { mode: 0o755 });
      vi.stubEnv('PATH', `${bin}:${process.env['PATH'] ?? ''}`);
    }
    vm = await StandInVm.start();
    hub = await Hub.start(vm.laptop);
    await hub.add();
    await hub.until('connected');
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await hub[Symbol.asyncDispose]();
    await vm[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tpulab sync '));
    await mkdir(path.join(folder, 'sub'));
    await mkdir(path.join(folder, '.git'));
    await writeFile(path.join(folder, '.git', 'config'), 'x');
    await writeFile(path.join(folder, 'model.py'), 'LAYERS = 3\n');
    await writeFile(path.join(folder, 'sub', 'a file.csv'), '1,2\n');
    await writeFile(path.join(folder, 'big.ckpt'), 'no');
    number += 1;
    return () => rm(folder, { recursive: true, force: true });
  });

  const there = (): string => `work ${number}`;
  const read = (file: string): Promise<string> => readFile(path.join(vm.home, there(), file), 'utf8');

  async function post(request: Partial<SyncRequest>): Promise<Answer> {
    const body = { localFolder: folder, remoteFolder: there(), direction: 'to-remote', ...request };
    return hub.rest('POST', '/bridge/v1/machines/vm/sync', { body });
  }

  async function planOf(request: Partial<SyncRequest>): Promise<SyncPlan> {
    const { status, body } = await post({ dryRun: true, ...request });
    expect(status, JSON.stringify(body)).toBe(200);
    return body as SyncPlan;
  }

  async function sync(request: Partial<SyncRequest> = {}): Promise<SyncStatus> {
    const begun = await post(request);
    expect(begun.status, JSON.stringify(begun.body)).toBe(202);
    return vi.waitUntil(
      async () => {
        const { body } = await hub.rest('GET', '/bridge/v1/machines/vm/sync');
        return (body as SyncStatus).state === 'running' ? null : (body as SyncStatus);
      },
      { timeout: 60_000, interval: 20 }
    );
  }

  it('reports what would happen and changes nothing', async () => {
    const body = await planOf({ exclude: ['*.ckpt'] });
    expect(body.changes.map(({ path: file, action }) => `${action} ${file}`).sort()).toEqual([
      'send model.py',
      'send sub/a file.csv'
    ]);
    expect(body).toMatchObject({ files: 2, deletions: 0, bytes: 15, transport });
    expect(body.remoteFolder).toBe(`/home/${USER}/${there()}`);
    await expect(read('model.py')).rejects.toThrow();
  });

  it('copies to the VM, including names with spaces, without the excluded files', async () => {
    expect(await sync({ exclude: ['*.ckpt'] })).toMatchObject({
      state: 'done',
      files: 2,
      totalFiles: 2,
      error: null
    });
    expect(await read('model.py')).toBe('LAYERS = 3\n');
    expect(await read('sub/a file.csv')).toBe('1,2\n');
    await expect(read('big.ckpt')).rejects.toThrow();
    await expect(read('.git/config')).rejects.toThrow();
    // The second sync finds no differences.
    expect((await planOf({ exclude: ['*.ckpt'] })).files).toBe(0);
  });

  it('copies from the VM, and deletes files here that are missing there only on request', async () => {
    await sync();
    await vm.run(`echo 'LAYERS = 4' > "$HOME/${there()}/model.py"; mkdir -p "$HOME/${there()}/new/deep"
echo new > "$HOME/${there()}/new/deep/a b.txt"; rm "$HOME/${there()}/sub/a file.csv"`);
    // A file that is newer here is overwritten too; the plan names it.
    const later = new Date(Date.now() + 3_600_000);
    await utimes(path.join(folder, 'model.py'), later, later);
    const first = await planOf({ direction: 'from-remote' });
    expect(first.newer).toBe(1);
    expect(first.changes.filter(({ newer }) => newer).map(({ path: file }) => file)).toEqual(['model.py']);
    await utimes(path.join(folder, 'model.py'), new Date(0), new Date(0));
    expect((await planOf({ direction: 'from-remote' })).newer).toBe(0);
    expect((await sync({ direction: 'from-remote' })).error).toBeNull();
    expect(await readFile(path.join(folder, 'model.py'), 'utf8')).toBe('LAYERS = 4\n');
    expect(await readFile(path.join(folder, 'new/deep/a b.txt'), 'utf8')).toBe('new\n');
    expect(await readFile(path.join(folder, 'sub/a file.csv'), 'utf8')).toBe('1,2\n');
    const plan = await planOf({ direction: 'from-remote', delete: true });
    expect(plan.changes.filter(({ path: file }) => !file.endsWith('/'))).toEqual([
      { path: 'sub/a file.csv', action: 'delete', bytes: 0 }
    ]);
    expect((await sync({ direction: 'from-remote', delete: true })).error).toBeNull();
    await expect(readFile(path.join(folder, 'sub/a file.csv'))).rejects.toThrow();
    expect((await readdir(folder)).filter(name => name.startsWith('.tpulab'))).toEqual([]);
  });

  it('writes no file outside the folder, whatever links it contains', async () => {
    const outside = await mkdtemp(path.join(tmpdir(), 'tpulab outside '));
    await vm.run(`mkdir -p "$HOME/${there()}/way"; echo x > "$HOME/${there()}/way/in.txt"
ln -s /etc/hostname "$HOME/${there()}/link.txt"; ln -s / "$HOME/${there()}/root"`);
    await symlink(outside, path.join(folder, 'way'));
    await sync({ direction: 'from-remote' });
    expect(await readdir(outside)).toEqual([]);
    if (transport === 'tar') {
      expect((await planOf({ direction: 'from-remote', exclude: ['way'] })).files).toBe(0);
      await expect(lstat(path.join(folder, 'root'))).rejects.toThrow();
    }
    await rm(outside, { recursive: true });
  });

  it('an unreadable file and an unreadable folder stop nothing, and are reported', async () => {
    await vm.run(`mkdir -p "$HOME/${there()}/locked"; cd "$HOME/${there()}"; echo 1 > good; echo 2 > bad
echo 3 > locked/x; chmod 000 bad locked`);
    const status = await sync({ direction: 'from-remote' });
    expect(status, JSON.stringify(status)).toMatchObject({ state: 'done', leftOutCount: 2 });
    expect(await readFile(path.join(folder, 'good'), 'utf8')).toBe('1\n');
    expect(status.leftOut.map(one => one.path).sort()).toEqual(['bad', 'locked']);
    expect(status.leftOut.every(({ failed }) => failed)).toBe(true);
    await vm.run(`chmod 700 "$HOME/${there()}/locked"`);
  });

  it('deletes only on request, and shows the deletions before', async () => {
    await sync();
    await rm(path.join(folder, 'big.ckpt'));
    await sync();
    expect(await read('big.ckpt')).toBe('no');
    expect((await planOf({ delete: true })).changes).toEqual([
      { path: 'big.ckpt', action: 'delete', bytes: 0 }
    ]);
    await sync({ delete: true });
    await expect(read('big.ckpt')).rejects.toThrow();
  });

  it.each([
    [{ localFolder: 'relative' }, 'absolute path'],
    [{ localFolder: '/nowhere/at/all' }, 'no folder'],
    [{ localFolder: '/' }, 'too large'],
    [{ remoteFolder: '../etc' }, 'cannot be the folder'],
    [{ remoteFolder: '/' }, 'cannot be the folder'],
    [{ remoteFolder: '~/' }, 'cannot be the folder'],
    [{ remoteFolder: '-oProxyCommand=x' }, 'cannot be the folder']
  ])('refuses %j', async (request, words) => {
    const { status, body } = await post(request);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(body).toMatchObject({ message: expect.stringContaining(words) as unknown });
  });

  it('reports a connection that is lost in the middle, and resumes the next time', async () => {
    await writeFile(path.join(folder, 'large.bin'), Buffer.alloc(64 * 1024 * 1024, 7));
    const begun = await post({});
    expect(begun.status).toBe(202);
    await hub.post('disconnect');
    const ended = await vi.waitUntil(
      async () => {
        const { body } = await hub.rest('GET', '/bridge/v1/machines/vm/sync');
        return (body as SyncStatus).state === 'running' ? null : (body as SyncStatus);
      },
      { timeout: 100_000, interval: 50 }
    );
    expect(['failed', 'done']).toContain(ended.state);
    expect((await post({})).body).toMatchObject({
      message: expect.stringContaining('not connected') as unknown
    });
    await hub.post('connect');
    await hub.until('connected');
    expect(await sync()).toMatchObject({ state: 'done', error: null });
  });
}
