import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { workingDirectory } from './kernel-env.js';

let root: string;

beforeAll(() => {
  root = mkdtempSync(path.join(tmpdir(), 'root-'));
  mkdirSync(path.join(root, 'a', 'b'), { recursive: true });
  writeFileSync(path.join(root, 'a', 'notebook.ipynb'), '');
});

afterAll(() => rmSync(root, { recursive: true }));

it.each([
  ['', ''],
  [null, ''],
  ['.', ''],
  ['a/b', 'a/b'],
  ['/a/b', 'a/b'],
  ['a/notebook.ipynb', 'a'],
  ['a/not/here/at/all', 'a'],
  ['elsewhere', ''],
  ['../../etc', ''],
  ['a/../../..', ''],
  ['/etc', ''],
  ['a\0b', '']
])('[4] the path %j of a client means the folder %j below the root', async (given, expected) => {
  expect(await workingDirectory(root, given)).toBe(path.join(root, expected));
});

it('a path that names the root folder is that path', async () => {
  const whole = (below: string): string => `${root}${below}`;
  expect(await workingDirectory(root, whole('/a/b/notebook.ipynb'))).toBe(whole('/a/b'));
  expect(await workingDirectory(root, whole('/'))).toBe(root);
  expect(await workingDirectory(root, whole('/a/../../etc'))).toBe(root);
  // Without its leading slash, the path is one below the root folder, which does not exist.
  expect(await workingDirectory(root, whole('/a/b').slice(1))).toBe(root);
  expect(await workingDirectory(root, `${root}-elsewhere/a/b`)).toBe(root);
});

it('a folder that the client itself names is used if it exists, even outside the root folder', async () => {
  const elsewhere = mkdtempSync(path.join(tmpdir(), 'elsewhere-'));
  expect(await workingDirectory(root, 'a', elsewhere)).toBe(elsewhere);
  rmSync(elsewhere, { recursive: true });
  for (const named of [elsewhere, 'a', '', '/a\0b'])
    expect(await workingDirectory(root, 'a', named)).toBe(path.join(root, 'a'));
});
