/**
 * Names that differ only by case are equal, as in the default file system of macOS, one file is read-only, and one is mounted
 * by itself. All are mocked: root, who may run the specs, can write every file, and others cannot mount one.
 */
import { readdirSync } from 'node:fs';
import type * as Files from 'node:fs/promises';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, vi } from 'vitest';
import { NotebookFile } from '../cli/outputs/notebook-file.js';
import { RootFolder } from './root-folder.js';

vi.mock('node:fs/promises', async original => {
  const real = await original<typeof Files>();
  /** The name as stored in its folder. */
  const stored = (file: string): string => {
    const [folder, name] = [path.dirname(file), path.basename(file)];
    const found = readdirSync(folder).find(each => each.toLowerCase() === name.toLowerCase());
    return path.join(folder, found ?? name);
  };
  return {
    ...real,
    access: (file: string, mode?: number) =>
      path.basename(file) === 'read-only.ipynb'
        ? Promise.reject(Object.assign(new Error('permission denied'), { code: 'EACCES' }))
        : real.access(file, mode),
    link: (from: string, to: string) => real.link(stored(from), stored(to)),
    lstat: (file: string, options?: object) => real.lstat(stored(file), options),
    mkdir: (file: string, options?: object) => real.mkdir(stored(file), options),
    unlink: (file: string) => real.unlink(stored(file)),
    rename: (from: string, to: string) =>
      path.basename(to) === 'mounted.ipynb'
        ? Promise.reject(Object.assign(new Error('resource busy'), { code: 'EBUSY' }))
        : real.rename(stored(from), to)
  };
});

it('a rename changes the case of a name, and replaces nothing', async () => {
  const root = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  const files = new RootFolder(root);
  await writeFile(path.join(root, 'Foo.ipynb'), 'one');
  await writeFile(path.join(root, 'bar.ipynb'), 'two');
  await mkdir(path.join(root, 'Data'));
  await files.move('Foo.ipynb', 'foo.ipynb');
  await files.move('Data', 'data');
  await expect(files.move('bar.ipynb', 'FOO.ipynb')).rejects.toMatchObject({ code: 'file_exists' });
  expect((await readdir(root)).sort()).toEqual(['bar.ipynb', 'data', 'foo.ipynb']);
  expect(await readFile(path.join(root, 'foo.ipynb'), 'utf8')).toBe('one');
  await rm(root, { recursive: true });
});

it('a read-only file is not replaced, although its folder is writable', async () => {
  const root = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  const files = new RootFolder(root);
  await writeFile(path.join(root, 'read-only.ipynb'), 'one');
  const { etag, isWritable } = await files.entry('read-only.ipynb');
  expect(isWritable).toBe(false);
  await expect(files.write('read-only.ipynb', Buffer.from('two'), { etag: etag! })).rejects.toMatchObject({
    code: 'file_read_only',
    message: '"read-only.ipynb" is read-only.'
  });
  expect(await readFile(path.join(root, 'read-only.ipynb'), 'utf8')).toBe('one');
  expect(await readdir(root)).toEqual(['read-only.ipynb']);
  await rm(root, { recursive: true });
});

it('a file that is mounted by itself, as into a container, is written in place', async () => {
  const root = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  const files = new RootFolder(root);
  const file = path.join(root, 'mounted.ipynb');
  await writeFile(file, 'one');
  const { etag } = await files.entry('mounted.ipynb');
  await files.write('mounted.ipynb', Buffer.from('two'), { etag: etag! });
  expect(await readFile(file, 'utf8')).toBe('two');
  const notebook = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}';
  await writeFile(file, notebook);
  await (await NotebookFile.read(file)).replace('{}', { backup: false });
  expect(await readFile(file, 'utf8')).toBe('{}');
  expect(await readdir(root)).toEqual(['mounted.ipynb']);
  await rm(root, { recursive: true });
});
