import {
  link,
  mkdtemp,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
  chmod,
  chown
} from 'node:fs/promises';
import { realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RootFolder } from './root-folder.js';
import { TRASH } from './trash.js';

let around: string;
let root: string;
let files: RootFolder;
const text = (words: string): Buffer => Buffer.from(words);

beforeEach(async () => {
  around = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  root = path.join(around, 'root');
  await mkdir(path.join(root, 'sub'), { recursive: true });
  await writeFile(path.join(around, 'secret'), 'secret');
  await writeFile(path.join(root, 'a.ipynb'), 'one');
  files = new RootFolder(root, { fileBytes: 1000, listed: 5 });
});

afterEach(() => rm(around, { recursive: true, force: true }));

describe('reading', () => {
  it('returns the bytes with their version, which changes with them', async () => {
    const { bytes, entry } = await files.read('a.ipynb');
    expect(bytes.toString()).toBe('one');
    expect(entry).toMatchObject({ path: 'a.ipynb', kind: 'file', sizeBytes: 3, isWritable: true });
    await files.write('a.ipynb', text('two'), { etag: entry.etag! });
    expect((await files.entry('a.ipynb')).etag).not.toBe(entry.etag);
  });

  it.each([
    '../secret',
    'sub/../../secret',
    '/etc/passwd',
    '.hidden',
    'sub/.git/x',
    'a\0b',
    'a//b',
    'x'.repeat(256)
  ])('refuses the path %j', async requested => {
    for (const work of [
      files.read(requested),
      files.write(requested, text(''), 'absent'),
      files.trash(requested)
    ])
      await expect(work).rejects.toMatchObject({ code: 'file_path_invalid' });
  });

  it('accepts a backslash in a name: reads, lists, renames, and restores from the trash', async () => {
    const name = 'back\\slash [1] {a}~$HOME.ipynb';
    await writeFile(path.join(root, name), 'odd');
    expect((await files.read(name)).bytes.toString()).toBe('odd');
    expect((await files.list('')).entries.map(entry => entry.name)).toContain(name);
    const { id } = await files.trash(name);
    expect(await files.restore(id)).toMatchObject({ path: name });
    await files.move(name, 'sub/\\..\\x');
    expect(await readdir(path.join(root, 'sub'))).toEqual(['\\..\\x']);
    expect(await readdir(around)).toEqual(['root', 'secret']);
  });

  it('reads a complete file while it is replaced repeatedly, and never reports it as missing', async () => {
    await writeFile(path.join(root, 'busy.ipynb'), 'x'.repeat(1000));
    const ended = new AbortController();
    const writing = (async () => {
      for (let at = 0; !ended.signal.aborted; at += 1) {
        await writeFile(path.join(root, 'draft'), String(at % 10).repeat(1000));
        await rename(path.join(root, 'draft'), path.join(root, 'busy.ipynb'));
      }
    })();
    for (let at = 0; at < 300; at += 1) {
      const read = Buffer.from((await files.read('busy.ipynb')).bytes).toString();
      expect(read).toMatch(/^(.)\1{999}$/);
    }
    ended.abort();
    await writing;
  });

  it('follows a link to a file or folder inside the root, and none that leads out', async () => {
    await symlink(path.join(root, 'a.ipynb'), path.join(root, 'inside'));
    await symlink(path.join(around, 'secret'), path.join(root, 'out'));
    await symlink(around, path.join(root, 'up'));
    await symlink('loop', path.join(root, 'loop'));
    expect((await files.read('inside')).bytes.toString()).toBe('one');
    for (const requested of ['out', 'up/secret', 'loop'])
      await expect(files.read(requested)).rejects.toMatchObject({ code: 'file_not_found' });
    await expect(files.write('up/new', text('x'), 'absent')).rejects.toMatchObject({
      code: 'file_not_found'
    });
    await expect(files.write('out', text('x'), null)).rejects.toMatchObject({ code: 'file_not_found' });
    await expect(files.move('a.ipynb', 'up/moved')).rejects.toMatchObject({ code: 'file_not_found' });
    expect(await readFile(path.join(around, 'secret'), 'utf8')).toBe('secret');
    expect((await files.list('')).entries.map(({ name }) => name)).toEqual(['sub', 'a.ipynb', 'inside']);
  });

  it('does not wait for a pipe, and reports other file types', async () => {
    execFileSync('mkfifo', [path.join(root, 'pipe')]);
    await expect(files.read('pipe')).rejects.toMatchObject({ code: 'file_wrong_kind' });
    await expect(files.read('sub')).rejects.toMatchObject({ code: 'file_wrong_kind' });
    await expect(files.list('a.ipynb')).rejects.toMatchObject({ code: 'file_wrong_kind' });
  });

  it('has a limit', async () => {
    await writeFile(path.join(root, 'large'), Buffer.alloc(1001));
    await expect(files.read('large')).rejects.toMatchObject({ code: 'file_too_large' });
    await expect(files.write('new', Buffer.alloc(1001), 'absent')).rejects.toMatchObject({
      code: 'file_too_large'
    });
  });

  it('lists no more than its limit, and reports that', async () => {
    for (let i = 0; i < 9; i += 1) await writeFile(path.join(root, `n${i}`), '');
    const page = await files.list('');
    expect(page.entries).toHaveLength(5);
    expect(page.isCut).toBe(true);
  });
});

describe('writing', () => {
  it('requires the version that is replaced; of two writes with the same version one wins', async () => {
    await expect(files.write('a.ipynb', text('x'), null)).rejects.toMatchObject({
      code: 'file_version_missing'
    });
    await expect(files.write('a.ipynb', text('x'), 'absent')).rejects.toMatchObject({ code: 'file_exists' });
    const { etag } = await files.entry('a.ipynb');
    const done = await Promise.allSettled(
      ['b', 'c', 'd'].map(words => files.write('a.ipynb', text(words), { etag: etag! }))
    );
    expect(done.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(await readFile(path.join(root, 'a.ipynb'), 'utf8')).toBe('b');
  });

  it('preserves permissions, leaves no draft, and creates no folder', async () => {
    await chmod(path.join(root, 'a.ipynb'), 0o640);
    const { etag } = await files.entry('a.ipynb');
    await files.write('a.ipynb', text('x'), { etag: etag! });
    expect((await stat(path.join(root, 'a.ipynb'))).mode & 0o777).toBe(0o640);
    await expect(files.write('no/such', text('x'), 'absent')).rejects.toMatchObject({
      code: 'file_not_found'
    });
    await expect(files.write('sub', text('x'), null)).rejects.toMatchObject({ code: 'file_wrong_kind' });
    expect((await readdir(root)).sort()).toEqual(['a.ipynb', 'sub']);
  });

  // Colleagues who share a folder may read and write the file by its group, or own it.
  it.runIf(process.getuid?.() === 0)('preserves owner and group', async () => {
    const file = path.join(root, 'a.ipynb');
    await chown(file, 4321, 1234);
    await chmod(file, 0o664);
    const { etag } = await files.entry('a.ipynb');
    await files.write('a.ipynb', text('x'), { etag: etag! });
    const { uid, gid, mode } = await stat(file);
    expect([uid, gid, mode & 0o777]).toEqual([4321, 1234, 0o664]);
  });

  // A rename would leave the old content under the other name.
  it('preserves the other names of a file, and its old content if it cannot be written', async () => {
    const other = path.join(around, 'other-name');
    await link(path.join(root, 'a.ipynb'), other);
    const { etag } = await files.entry('a.ipynb');
    const { entry } = await files.write('a.ipynb', text('longer than before'), { etag: etag! });
    expect(await readFile(other, 'utf8')).toBe('longer than before');
    expect(entry.etag).toBe((await files.entry('a.ipynb')).etag);
    await files.write('a.ipynb', text('2'), { etag: entry.etag! });
    expect(await readFile(other, 'utf8')).toBe('2');
    await expect(files.write('a.ipynb', text('3'), { etag: entry.etag! })).rejects.toMatchObject({
      code: 'file_changed'
    });
  });

  // A program may be killed between draft and rename.
  it('removes old drafts that a killed program has left, and nothing else', async () => {
    const [old, fresh] = ['0123456789ab', 'ba9876543210'].map(
      end => `.01234567-89ab-cdef-0123-${end}.tpulab-draft`
    ) as [string, string];
    for (const name of [old, fresh, '.mine.tpulab-draft']) await writeFile(path.join(root, name), 'draft');
    for (const name of [old, '.mine.tpulab-draft']) await utimes(path.join(root, name), 1, 1);
    await files.write('new.ipynb', text('x'), 'absent');
    expect((await readdir(root)).sort()).toEqual(
      [fresh, '.mine.tpulab-draft', 'a.ipynb', 'new.ipynb', 'sub'].sort()
    );
  });

  // An attacker with write access to the root repeatedly swaps a folder for a link out of it.
  it.skipIf(process.platform !== 'linux')('never writes elsewhere while its folder is swapped', async () => {
    const outside = path.join(around, 'outside');
    await mkdir(outside);
    await symlink(outside, path.join(root, 'link'));
    const ended = new AbortController();
    const exchanging = (async () => {
      const [sub, away, bait] = ['sub', 'away', 'link'].map(name => path.join(root, name)) as [
        string,
        string,
        string
      ];
      while (!ended.signal.aborted) {
        await rename(sub, away);
        await rename(bait, sub);
        await rename(sub, bait);
        await rename(away, sub);
      }
    })();
    for (let at = 0; at < 300; at += 1) {
      const name = `sub/n${at}`;
      await writeFile(path.join(root, `m${at}`), '');
      const works = [
        files.write(name, text('x'), 'absent'),
        files.makeFolder(`${name}f`),
        files.move(`m${at}`, `${name}m`)
      ];
      await Promise.allSettled(works);
    }
    ended.abort();
    await exchanging;
    expect(await readdir(outside)).toEqual([]);
    expect((await files.write('sub/last', text('x'), 'absent')).isNew).toBe(true);
  });

  it('of two new files with the same name one wins', async () => {
    const done = await Promise.allSettled(
      ['1', '2', '3'].map(words => files.write('same.ipynb', text(words), 'absent'))
    );
    expect(done.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
    for (const one of done)
      if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'file_exists' });
  });

  it('a rename replaces nothing', async () => {
    await writeFile(path.join(root, 'b.ipynb'), 'other');
    await expect(files.move('a.ipynb', 'b.ipynb')).rejects.toMatchObject({ code: 'file_exists' });
    await expect(files.move('sub', 'sub/deeper')).rejects.toMatchObject({ code: 'file_wrong_kind' });
    await files.move('a.ipynb', 'sub/c.ipynb');
    expect(await readFile(path.join(root, 'sub/c.ipynb'), 'utf8')).toBe('one');
    await mkdir(path.join(root, 'taken'));
    await expect(files.move('sub', 'taken')).rejects.toMatchObject({ code: 'file_exists' });
    await files.move('sub', 'Sub');
    expect((await readdir(path.join(root, 'Sub'))).sort()).toEqual(['c.ipynb']);
  });

  it('a deleted file is in the trash under its old path, which no client reaches', async () => {
    await files.move('a.ipynb', 'sub/a.ipynb');
    const { trashed } = await files.trash('sub/a.ipynb');
    expect(await readFile(path.join(root, trashed), 'utf8')).toBe('one');
    await expect(files.read(trashed)).rejects.toMatchObject({ code: 'file_path_invalid' });
    expect((await files.list('')).entries.map(({ name }) => name)).toEqual(['sub']);
    await rm(path.join(root, TRASH), { recursive: true });
    await symlink(around, path.join(root, TRASH));
    await expect(files.trash('sub')).rejects.toMatchObject({ code: 'file_wrong_kind' });
  });
});

describe('restoring', () => {
  it('restores a file and a complete folder, and recreates missing parent folders', async () => {
    await files.makeFolder('sub/deep');
    await files.write('sub/deep/b.ipynb', text('two'), 'absent');
    const file = await files.trash('a.ipynb', new Date('2026-01-02T03:04:05.678Z'));
    const folder = await files.trash('sub/deep', new Date('2026-01-03T03:04:05.678Z'));
    await files.trash('sub', new Date('2026-01-01T03:04:05.678Z'));
    const { items, isCut } = await files.listTrash();
    expect(isCut).toBe(false);
    expect(items.map(({ path: old, kind, deletedAt }) => [old, kind, deletedAt])).toEqual([
      ['sub/deep', 'folder', '2026-01-03T03:04:05.678Z'],
      ['a.ipynb', 'file', '2026-01-02T03:04:05.678Z'],
      ['sub', 'folder', '2026-01-01T03:04:05.678Z']
    ]);
    expect(await files.restore(folder.id)).toMatchObject({ path: 'sub/deep', kind: 'folder' });
    expect(await readFile(path.join(root, 'sub/deep/b.ipynb'), 'utf8')).toBe('two');
    expect(await files.restore(file.id)).toMatchObject({ path: 'a.ipynb', kind: 'file' });
    expect((await files.listTrash()).items.map(item => item.path)).toEqual(['sub']);
    expect(await readdir(path.join(root, TRASH))).toHaveLength(1);
  });

  it('replaces nothing, and leaves files that it cannot restore in the trash', async () => {
    const file = await files.trash('a.ipynb');
    await files.write('a.ipynb', text('new'), 'absent');
    const folder = await files.trash('sub');
    await files.write('sub', text('a file'), 'absent');
    for (const { id } of [file, folder])
      await expect(files.restore(id)).rejects.toMatchObject({ code: 'file_exists' });
    expect(await readFile(path.join(root, 'a.ipynb'), 'utf8')).toBe('new');
    expect((await files.listTrash()).items).toHaveLength(2);
    // Only once: a second request gets "not found".
    await files.trash('sub');
    await files.restore(folder.id);
    await expect(files.restore(folder.id)).rejects.toMatchObject({ code: 'file_not_found' });
  });

  it.each(['', '.', '..', '../..', 'sub', '2026-01-02T03-04-05.678Z-0123abcd-1', 'x'.repeat(64)])(
    'has nothing under %j',
    async id => {
      await files.trash('a.ipynb');
      await expect(files.restore(id)).rejects.toMatchObject({ code: 'file_not_found' });
    }
  );

  it('follows no link in the trash, and none out of the root', async () => {
    await files.write('sub/b.ipynb', text('two'), 'absent');
    const { id, trashed } = await files.trash('sub/b.ipynb');
    const between = path.dirname(path.join(root, trashed));
    await rm(between, { recursive: true });
    await symlink(around, between);
    await expect(files.restore(id)).rejects.toMatchObject({ code: 'file_wrong_kind' });
    expect((await files.listTrash()).items).toEqual([]);

    await files.makeFolder('gone');
    await files.write('gone/c.ipynb', text('three'), 'absent');
    const other = await files.trash('gone/c.ipynb');
    await rm(path.join(root, 'gone'), { recursive: true });
    await symlink(around, path.join(root, 'gone'));
    await expect(files.restore(other.id)).rejects.toMatchObject({ code: 'file_not_found' });
    expect((await readdir(around)).sort()).toEqual(['root', 'secret']);

    await rm(path.join(root, TRASH), { recursive: true });
    expect((await files.listTrash()).items).toEqual([]);
    await symlink(around, path.join(root, TRASH));
    await expect(files.restore(other.id)).rejects.toMatchObject({ code: 'file_wrong_kind' });
    expect((await files.listTrash()).items).toEqual([]);
  });
});

describe('emptying the trash', () => {
  it('permanently deletes one entry, or all, and no file that it did not put there', async () => {
    const { id } = await files.trash('a.ipynb');
    await files.trash('sub');
    await mkdir(path.join(root, TRASH, 'of somebody else'));
    await files.removeFromTrash(id);
    expect((await files.listTrash()).items.map(item => item.path)).toEqual(['sub']);
    await expect(files.restore(id)).rejects.toMatchObject({ code: 'file_not_found' });
    await expect(files.removeFromTrash(id)).rejects.toMatchObject({ code: 'file_not_found' });
    expect(await files.emptyTrash()).toBe(1);
    expect(await files.emptyTrash()).toBe(0);
    expect(await readdir(path.join(root, TRASH))).toEqual(['of somebody else']);
  });

  it.each(['', '.', '..', '../..', 'sub', 'of somebody else'])('has nothing under %j', async id => {
    await files.trash('a.ipynb');
    await expect(files.removeFromTrash(id)).rejects.toMatchObject({ code: 'file_not_found' });
    expect((await files.listTrash()).items).toHaveLength(1);
  });

  it('removes a link, but not its target', async () => {
    await symlink(path.join(around, 'secret'), path.join(root, 'sub', 'link'));
    const { id } = await files.trash('sub');
    await files.removeFromTrash(id);
    const { id: swapped } = await files.trash('a.ipynb');
    await rm(path.join(root, TRASH, swapped), { recursive: true });
    await symlink(around, path.join(root, TRASH, swapped));
    await expect(files.removeFromTrash(swapped)).rejects.toMatchObject({ code: 'file_wrong_kind' });
    expect(await readFile(path.join(around, 'secret'), 'utf8')).toBe('secret');
    await rm(path.join(root, TRASH), { recursive: true });
    await symlink(around, path.join(root, TRASH));
    expect(await files.emptyTrash()).toBe(0);
    expect((await readdir(around)).sort()).toEqual(['root', 'secret']);
  });
});

it('serves the whole file system if the root folder is `/`', async () => {
  const everything = new RootFolder('/');
  const name = path.join(realpathSync(root), 'a.ipynb').slice(1);
  expect((await everything.read(name)).bytes.toString()).toBe('one');
});

it('no request reads, writes or moves anything outside the root', async () => {
  await symlink(around, path.join(root, 'up'));
  const part = fc.oneof(
    fc.constantFrom('..', '.', '', 'up', 'sub', 'a.ipynb', 'secret', '%2e%2e', '\u2025', 'root'),
    fc.string({ maxLength: 12 }),
    fc.string({ unit: 'binary', maxLength: 6 })
  );
  const requested = fc.array(part, { maxLength: 5 }).map(parts => parts.join('/'));
  const work = fc.constantFrom(
    'read',
    'write',
    'move',
    'trash',
    'list',
    'folder',
    'restore',
    'restore any',
    'remove'
  );
  await fc.assert(
    fc.asyncProperty(requested, requested, work, async (one, other, what) => {
      const outcome = await (
        what === 'read'
          ? files.read(one)
          : what === 'write'
            ? files.write(one, text('written'), 'absent')
            : what === 'move'
              ? files.move(one, other)
              : what === 'trash'
                ? files.trash(one)
                : what === 'list'
                  ? files.list(one)
                  : what === 'folder'
                    ? files.makeFolder(one)
                    : what === 'restore'
                      ? files.restore(one)
                      : what === 'remove'
                        ? files.removeFromTrash(one)
                        : files.restore((await files.listTrash()).items[0]?.id ?? other)
      ).then(
        () => 'done',
        (error: unknown) => (error as { code?: string }).code ?? 'no code'
      );
      expect(outcome).toMatch(/^(done|file_\w+)$/);
      expect(outcome).not.toBe('file_action_failed');
      expect((await readdir(around)).sort()).toEqual(['root', 'secret']);
      expect(await readFile(path.join(around, 'secret'), 'utf8')).toBe('secret');
    }),
    { numRuns: 150 }
  );
});
