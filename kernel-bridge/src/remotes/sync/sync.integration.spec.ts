/** Folders that are synced with a stand-in VM, over the connection that its remote has. */
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { SyncPlan, SyncRequest, SyncStatus } from '@tpulab/protocol';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { StandInVm, whyNoStandIn } from '../../../../tests/stand-in-vm/index.js';
import type { Answer } from '../../server/testing/temporary-gateway.js';
import { Hub } from '../testing/hub.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const why = whyNoStandIn() ?? whyNoRsync();

function whyNoRsync(): string | null {
  try {
    execFileSync('rsync', ['--version'], { stdio: 'pipe' });
    return null;
  } catch {
    return 'there is no rsync';
  }
}

describe.skipIf(why !== null)(`syncing a folder${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let vm: StandInVm;
  let hub: Hub;
  let folder: string;
  let number = 0;

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
    return hub.rest('POST', '/bridge/v1/remotes/vm/sync', { body });
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
        const { body } = await hub.rest('GET', '/bridge/v1/remotes/vm/sync');
        return (body as SyncStatus).state === 'running' ? null : (body as SyncStatus);
      },
      { timeout: 60_000, interval: 20 }
    );
  }

  it('says what would happen and does nothing', async () => {
    const body = await planOf({ exclude: ['*.ckpt'] });
    expect(body.changes.map(({ path: file, action }) => `${action} ${file}`).sort()).toEqual([
      'send model.py',
      'send sub/a file.csv'
    ]);
    expect(body).toMatchObject({ files: 2, deletions: 0, bytes: 15, remoteFolder: there() });
    await expect(read('model.py')).rejects.toThrow();
  });

  it('copies to the VM, names with blanks too, without what is left out', async () => {
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
    // The second time there is nothing to do.
    expect((await planOf({ exclude: ['*.ckpt'] })).files).toBe(0);
  });

  it('both ways take what is newer, and lose nothing', async () => {
    await sync();
    await vm.run(`echo 'LAYERS = 4' > "$HOME/${there()}/model.py"; echo new > "$HOME/${there()}/there.txt"`);
    const later = new Date(Date.now() + 60_000);
    await writeFile(path.join(folder, 'sub', 'a file.csv'), '3,4\n');
    await utimes(path.join(folder, 'sub', 'a file.csv'), later, later);
    await utimes(path.join(folder, 'model.py'), new Date(0), new Date(0));
    expect((await sync({ direction: 'both' })).error).toBeNull();
    expect(await readFile(path.join(folder, 'model.py'), 'utf8')).toBe('LAYERS = 4\n');
    expect(await readFile(path.join(folder, 'there.txt'), 'utf8')).toBe('new\n');
    expect(await read('sub/a file.csv')).toBe('3,4\n');
  });

  it('deletes only when it is told to, and shows that before', async () => {
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
    [{ localFolder: '/' }, 'too much'],
    [{ remoteFolder: '../etc' }, 'cannot be the folder'],
    [{ remoteFolder: '-oProxyCommand=x' }, 'cannot be the folder']
  ])('refuses %j', async (request, words) => {
    const { status, body } = await post(request);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(body).toMatchObject({ message: expect.stringContaining(words) as unknown });
  });

  it('says so when the connection is lost in the middle, and goes on the next time', async () => {
    await writeFile(path.join(folder, 'large.bin'), Buffer.alloc(64 * 1024 * 1024, 7));
    const begun = await post({});
    expect(begun.status).toBe(202);
    await hub.post('disconnect');
    const ended = await vi.waitUntil(
      async () => {
        const { body } = await hub.rest('GET', '/bridge/v1/remotes/vm/sync');
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
});
