import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { silent } from '../testing/temporary-gateway.js';
import { RemoteLog } from '../../../machines/src/remote-report.js';
import { isRemoteName, nameFor, type RemoteRecord, RemoteStore } from '../../../machines/src/remote-store.js';

let folder: string;
beforeEach(async () => (folder = await mkdtemp(path.join(tmpdir(), 'tpl-'))));
afterEach(async () => rm(folder, { recursive: true, force: true }));

const RECORD: RemoteRecord = {
  name: 'my-tpu',
  source: { kind: 'gcloud', product: 'tpu-vm', name: 'my-tpu', zone: 'us-east5-b' },
  environment: 'jax',
  install: true,
  wanted: true,
  hosts: ['ana@192.0.2.1'],
  lastConnectedAt: 1,
  sender: '0123456789abcdef'
};

describe('the file of remotes', () => {
  it('is for this user alone, and returns what was stored', async () => {
    const store = new RemoteStore(folder, silent());
    await Promise.all([store.save([]), store.save([RECORD])]);
    expect(await new RemoteStore(folder, silent()).load()).toEqual([RECORD]);
    expect((await stat(path.join(folder, 'remotes.json'))).mode & 0o777).toBe(0o600);
  });

  it('of an older version, which had no names of senders, gets one for each remote', async () => {
    const { sender: _, ...older } = RECORD;
    const text = JSON.stringify({ version: 1, remotes: [older, { ...older, name: 'other' }] });
    await writeFile(path.join(folder, 'remotes.json'), text);
    const loaded = await new RemoteStore(folder, silent()).load();
    expect(loaded.map(({ name }) => name)).toEqual(['my-tpu', 'other']);
    expect(new Set(loaded.map(({ sender }) => sender)).size).toBe(2);
    for (const { sender } of loaded) expect(sender).toMatch(/^[0-9a-f]{16}$/);
  });

  it.each(['{', '[]', '{"version": 1, "remotes": [{"name": "../x"}]}'])(
    'that cannot be parsed (%s) is archived, not overwritten',
    async text => {
      await writeFile(path.join(folder, 'remotes.json'), text);
      expect(await new RemoteStore(folder, silent()).load()).toEqual([]);
      expect(await readFile(path.join(folder, 'remotes.json.damaged'), 'utf8')).toBe(text);
    }
  );
});

describe('names of remotes', () => {
  it.each([
    [{ kind: 'ssh', destination: 'Ana@My_Host.Example:22' } as const, 'my-host.example'],
    [{ kind: 'ssh', destination: 'ssh://root@[::1]:22' } as const, '1'],
    [RECORD.source, 'my-tpu'],
    [{ kind: 'ssh', destination: '…' } as const, 'remote']
  ])('come from their source: %j', (source, name) => {
    expect(nameFor(source, () => false)).toBe(name);
  });

  it('are numbered when they are in use', () => {
    const taken = new Set(['vm', 'vm-2']);
    expect(nameFor({ kind: 'ssh', destination: 'vm' }, name => taken.has(name))).toBe('vm-3');
  });

  it.each(['', '..', '.a', 'a/b', 'A', 'candidates', 'a..b', 'a'.repeat(64)])('%j is invalid', name => {
    expect(isRemoteName(name)).toBe(false);
  });
});

describe('the log of a remote', () => {
  it('omits known secrets, and texts that look like secrets', async () => {
    const log = new RemoteLog(folder, 'vm');
    log.hide('open sesame');
    log.add('the passphrase is open sesame, you know');
    log.add('GET /api?token=0123456789abcdef0123&x=1, Authorization: token 0123456789abcdef0123');
    const file = path.join(folder, 'vm.log');
    const text = await readFile(file, 'utf8');
    expect(text).not.toMatch(/sesame|0123456789abcdef/);
    expect(log.lines().map(line => line.text)[0]).toBe('the passphrase is [secret], you know');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });

  it('is safe to read in a terminal, whatever a machine sends', () => {
    const log = new RemoteLog(folder, 'vm');
    log.add('\u001b]0;title\u0007\u001b[31mred\u001b[0m\rover');
    expect(log.lines().at(-1)!.text).toBe('red over');
  });

  it('is continued by the next gateway', () => {
    new RemoteLog(folder, 'vm').add('connected');
    expect(new RemoteLog(folder, 'vm').lines()).toMatchObject([{ text: 'connected' }]);
  });

  it('has a limit, in memory and on disk', async () => {
    const log = new RemoteLog(folder, 'vm');
    for (let line = 0; line < 3000; line++) log.add('x'.repeat(1990));
    expect(log.lines().length).toBe(1000);
    expect((await readdir(folder)).sort()).toEqual(['vm.log', 'vm.log.1']);
  });
});
