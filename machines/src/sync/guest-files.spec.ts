/**
 * Which files the other side can write into the local folder. rsync is real on both sides; a script replaces the
 * connection.
 */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs';
import { execFileSync } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SshShell } from '../ssh/ssh-shell.js';
import type { SyncDirection, SyncLeftOut } from '@tpulab/protocol';
import { planSync, runSync } from './folder-sync.js';
import { failuresIn } from './rsync-arguments.js';

/** Runs the remote command on this machine. */
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

it.skipIf(!hasRsync)(
  'no link that leads out of the folder is copied here, and no device or pipe',
  async () => {
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
      onChange: () => undefined,
      onLeftOut: () => undefined
    });
    expect(readdirSync(here!).sort()).toEqual(['data.csv', 'inside']);
    expect(lstatSync(path.join(here!, 'inside')).isSymbolicLink()).toBe(true);
    // An existing link does not redirect a write either.
    symlinkSync(secret!, path.join(here!, 'sub'));
    mkdirSync(path.join(there!, 'sub'));
    writeFileSync(path.join(there!, 'sub', 'planted'), 'x');
    await runSync({
      request: { localFolder: here!, remoteFolder: there!, direction: 'from-remote' },
      folders: { local: here!, remote: there! },
      shell,
      signal,
      onChange: () => undefined,
      onLeftOut: () => undefined
    });
    expect(existsSync(path.join(secret!, 'planted'))).toBe(false);
  }
);

const ODD_NAMES = [
  ...['plain.txt', 'with blank.txt', ' lead', 'trail ', '-rf', '--delete', '~', '~tilde', '#hash#', 'a:b'],
  ...['a\\b', "q'q", 'd"d', '$HOME', '`id`', '*.npy', '[a-c]', '{x,y}', 'tab\there', 'bell\x07'],
  ...['n\xc3\xa4he.txt', 'na\xcc\x88he.txt', '\xf0\x9f\x9a\x80.txt', 'caf\xe9.wav', '\xff\xfe.bin'],
  ...['line\nbreak.txt', 'end\r.txt', 'a\\#351b', 'sub/caf\xe9/x']
];
const at = (root: string, name: string): Buffer =>
  Buffer.concat([Buffer.from(`${root}/`), Buffer.from(name, 'latin1')]);

/** Names of regular files and folders with the contents of the files, one character per byte. */
function treeOf(root: string, below = ''): Record<string, string | null> {
  const found: Record<string, string | null> = {};
  for (const entry of readdirSync(at(root, below), { withFileTypes: true, encoding: 'buffer' })) {
    const last = entry.name.toString('latin1');
    const name = below === '' ? last : `${below}/${last}`;
    if (entry.isFile()) found[name] = readFileSync(at(root, name), 'latin1');
    if (entry.isDirectory()) Object.assign(found, { [name]: null }, treeOf(root, name));
  }
  return found;
}

describe.each(['rsync', 'tar'] as const)('names of any bytes, by %s', transport => {
  const directions: SyncDirection[] = ['to-remote', 'from-remote'];
  it.skipIf(transport === 'rsync' && !hasRsync).each(directions)('%s', async direction => {
    const [there, here, bin] = ['there', 'here', 'bin'].map(name => path.join(folder, name)) as [
      string,
      string,
      string
    ];
    for (const each of [there, here, bin]) mkdirSync(each);
    if (transport === 'tar') {
      writeFileSync(path.join(bin, 'rsync'), '#!/bin/sh\nexit 127\n', { mode: 0o755 });
      writeFileSync(path.join(folder, 'ssh'), SSH.replace('exec', `PATH='${bin}':"$PATH" exec`));
    }
    const [from, to] = direction === 'to-remote' ? [here, there] : [there, here];
    mkdirSync(at(from, 'sub/caf\xe9'), { recursive: true });
    mkdirSync(at(from, 'deep/level-0/level-1'), { recursive: true });
    for (const [index, name] of ODD_NAMES.entries()) {
      writeFileSync(at(from, name), `${index} ${'x'.repeat(index * 37)}`);
      utimesSync(at(from, name), 1_700_000_000 + index, 1_700_000_000 + index);
    }
    symlinkSync('plain.txt', path.join(from, 'in'));
    symlinkSync('/etc/hostname', path.join(from, 'out'));
    execFileSync('mkfifo', [path.join(from, 'fifo')]);

    const leftOut: SyncLeftOut[] = [];
    let files = 0;
    const { signal } = new AbortController();
    const program = path.join(folder, 'ssh');
    const run = {
      request: {
        localFolder: here,
        remoteFolder: there,
        direction,
        exclude: ['fifo'].slice(direction === 'to-remote' && transport === 'rsync' ? 0 : 1)
      },
      folders: { local: here, remote: there },
      shell: new SshShell({ program, controlPath: path.join(folder, 'c'), host: 'vm' }),
      signal
    };
    const plan = await planSync(run);
    expect(plan).toMatchObject({ transport, files: expect.any(Number) as number });
    const names = plan.changes.map(change => change.path);
    expect(names).toEqual(
      expect.arrayContaining(['n\u00e4he.txt', 'caf\\xe9.wav', 'line\\nbreak.txt', 'end\\r.txt', 'a\\#351b'])
    );
    await runSync({ ...run, onChange: () => void files++, onLeftOut: one => void leftOut.push(one) });
    expect(treeOf(to)).toEqual(treeOf(from));
    const reasons = leftOut.map(({ path: name, reason }) => `${name}: ${reason}`).sort();
    const pipe = 'fifo: a pipe, socket or device';
    expect(reasons).toEqual(
      transport === 'tar'
        ? [pipe, 'in: a link', 'out: a link']
        : direction === 'to-remote'
          ? []
          : [pipe, 'out: a link that leads out']
    );
    expect(plan.leftOutCount).toBe(leftOut.length);
    expect(files).toBeGreaterThanOrEqual(ODD_NAMES.length);

    // Files that exist only on the other side are listed before they are deleted.
    for (const name of ['only-there', 'caf\xe9-there', 'line\nthere']) writeFileSync(at(to, name), 'x');
    const deleting = { ...run, request: { ...run.request, delete: true } };
    const doomed = (await planSync(deleting)).changes.filter(({ action }) => action === 'delete');
    expect(doomed.map(change => change.path).sort()).toEqual([
      'caf\\xe9-there',
      'line\\nthere',
      'only-there'
    ]);
    await runSync({ ...deleting, onChange: () => undefined, onLeftOut: () => undefined });
    expect(treeOf(to)).toEqual(treeOf(from));
    rmSync(path.join(from, 'fifo'));
  });
});

it('files that rsync could not read are named relative to the folder', () => {
  const folders = { local: '/srv/my work', remote: '/srv/there' };
  const words = `rsync: [sender] send_files failed to open "/srv/my work/a/caf\\#351.txt": Permission denied (13)
rsync: [sender] opendir "/srv/my work/secret" failed: Permission denied (13)
rsync: [receiver] mkstemp "/srv/there/.x.abc" (in files) failed: No such file or directory (2)
rsync error: some files/attrs were not transferred (see previous errors) (code 23) at main.c(1338) [sender=3.2.7]`;
  expect(failuresIn(words, folders)).toEqual([
    { path: 'a/caf\\xe9.txt', reason: 'cannot be read or written', failed: true },
    { path: 'secret', reason: 'cannot be read or written', failed: true },
    { path: '.x.abc', reason: 'No such file or directory', failed: true }
  ]);
});
