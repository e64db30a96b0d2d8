/** What the other side may put into the folder here. rsync is real on both sides; a script stands for the way between. */
import { existsSync, lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { SshShell } from '../ssh/ssh-shell.js';
import { runSync } from './folder-sync.js';

/** Runs here what is to run there. */
const SSH = `#!/bin/sh
while [ "$1" != remote ]; do shift; done
shift
exec sh -c "$*"
`;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  await writeFile(path.join(folder, 'ssh'), SSH);
  await chmod(path.join(folder, 'ssh'), 0o700);
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const hasRsync = ((): boolean => {
  try {
    return execFileSync('rsync', ['--version']).length > 0;
  } catch {
    return false;
  }
})();

it.skipIf(!hasRsync)('no link that leads out of the folder comes here, and no device or pipe', async () => {
  const [there, here, secret] = ['there', 'here', 'secret'].map(name => path.join(folder, name));
  for (const each of [there!, here!, secret!]) mkdirSync(each);
  writeFileSync(path.join(secret!, 'keys'), 'mine');
  writeFileSync(path.join(there!, 'data.csv'), '1,2');
  symlinkSync('data.csv', path.join(there!, 'inside'));
  symlinkSync(secret!, path.join(there!, 'absolute'));
  symlinkSync('../secret/keys', path.join(there!, 'above'));
  execFileSync('mkfifo', [path.join(there!, 'pipe')]);
  const { signal } = new AbortController();
  const shell = new SshShell({
    program: path.join(folder, 'ssh'),
    controlPath: path.join(folder, 'c'),
    host: 'vm'
  });
  await runSync({
    request: { localFolder: here!, remoteFolder: there!, direction: 'from-remote' },
    folders: { local: here!, remote: there! },
    shell,
    signal,
    onChange: () => undefined
  });
  expect(readdirSync(here!).sort()).toEqual(['data.csv', 'inside']);
  expect(lstatSync(path.join(here!, 'inside')).isSymbolicLink()).toBe(true);
  // Nor is anything written through a link that was brought before.
  symlinkSync(secret!, path.join(here!, 'sub'));
  mkdirSync(path.join(there!, 'sub'));
  writeFileSync(path.join(there!, 'sub', 'planted'), 'x');
  await runSync({
    request: { localFolder: here!, remoteFolder: there!, direction: 'from-remote' },
    folders: { local: here!, remote: there! },
    shell,
    signal,
    onChange: () => undefined
  });
  expect(existsSync(path.join(secret!, 'planted'))).toBe(false);
});
