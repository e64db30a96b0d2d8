import { lstatSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, it, vi } from 'vitest';
import { TokenStore } from '../http/token-store.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000 });

/** Every file, folder and socket below the folder, with its permissions. */
function walk(folder: string): { at: string; mode: number; isFolder: boolean }[] {
  return readdirSync(folder).flatMap(name => {
    const at = path.join(folder, name);
    const found = lstatSync(at, { throwIfNoEntry: false });
    // A draft of the keeper that has meanwhile replaced its file.
    if (found === undefined) return [];
    // The kernel creates its own sockets, with its own umask; the folder around them is the protection.
    if (found.isSocket() && /^k-\d+$/.test(name)) return [];
    const entry = { at, mode: found.mode & 0o777, isFolder: found.isDirectory() };
    return found.isDirectory() ? [entry, ...walk(at)] : [entry];
  });
}

it('only this user can access the files of a state folder with a used kernel', async () => {
  await using bridge = await TemporaryGateway.start();
  await bridge.gateway.ready;
  await new TokenStore(bridge.folder).create('a', null);
  const id = await bridge.startKernel({ name: 'lossless' });
  using client = await bridge.connect(id);
  await client.run('print(1)');
  await bridge.rest('POST', '/api/sessions', { body: { path: 'a', type: 'console', kernel: { id } } });
  // Files that the specs themselves create.
  const own = walk(bridge.folder).filter(({ at }) => !at.startsWith(path.join(bridge.folder, 'jupyter')));
  const names = own.map(({ at }) => path.basename(at));
  for (const name of [
    'token',
    'tokens.json',
    'gateway.json',
    'sessions.json',
    'connection.json',
    'launch.json'
  ])
    expect(names).toContain(name);
  expect(names.some(name => name.endsWith('.seg'))).toBe(true);
  for (const { at, mode, isFolder } of own) {
    expect([at, mode.toString(8)]).toEqual([at, isFolder ? '700' : '600']);
  }
});
