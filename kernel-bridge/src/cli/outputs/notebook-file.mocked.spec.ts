/** A file that its user may not write. The refusal is mocked, because root, who may run the specs, can write every file. */
import type * as Files from 'node:fs/promises';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, vi } from 'vitest';
import { NotebookFile } from './notebook-file.js';

vi.mock('node:fs/promises', async original => ({
  ...(await original<typeof Files>()),
  access: () => Promise.reject(Object.assign(new Error('permission denied'), { code: 'EACCES' }))
}));

it('a read-only notebook is left alone, although its folder could be written', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  const file = path.join(folder, 'a.ipynb');
  const text = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}';
  await writeFile(file, text);
  const read = await NotebookFile.read(file);
  const refused = { code: 'notebook_not_written', message: expect.stringContaining('read-only') as string };
  await expect(read.replace('{}', { backup: true })).rejects.toMatchObject(refused);
  expect(await readFile(file, 'utf8')).toBe(text);
  expect(await readdir(folder)).toEqual(['a.ipynb']);
  await rm(folder, { recursive: true });
});
