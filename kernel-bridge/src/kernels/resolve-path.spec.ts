import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { resolveBelowRoot, resolveForKernel } from './resolve-path-routes.js';

let folder: string;
let root: string;

beforeAll(async () => {
  folder = await realpath(await mkdtemp(path.join(os.tmpdir(), 'tpulab-resolve-')));
  root = path.join(folder, 'root');
  await mkdir(path.join(root, 'sub'), { recursive: true });
  await writeFile(path.join(root, 'sub', 'a.py'), '');
  await writeFile(path.join(folder, 'secret'), '');
});

afterAll(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true, force: true });
});

describe('looking a file up below the root folder', () => {
  it('finds it by its relative path, with or without a leading slash, and by its absolute path', async () => {
    for (const requested of ['sub/a.py', '/sub/a.py', './sub/../sub/a.py', path.join(root, 'sub', 'a.py')]) {
      expect(await resolveBelowRoot(root, requested)).toBe('sub/a.py');
    }
  });

  it('reveals nothing about files outside', async () => {
    const outside = path.join(folder, 'secret');
    for (const requested of ['../secret', 'sub/../../secret', '/../secret', outside, '..']) {
      expect(await resolveBelowRoot(root, requested)).toBeNull();
    }
  });

  it('expands ~ to the home folder, and reveals only files below the root', async () => {
    vi.stubEnv('HOME', root);
    expect(await resolveBelowRoot(root, '~/sub/../sub/a.py')).toBe('sub/a.py');
    vi.stubEnv('HOME', folder);
    expect(await resolveBelowRoot(root, '~/secret')).toBeNull();
  });

  it('finds nothing under a name that cannot be a path', async () => {
    for (const requested of ['a\0b', 'x'.repeat(5000), 'missing']) {
      expect(await resolveBelowRoot(root, requested)).toBeNull();
    }
  });
});

describe('looking a file up as a kernel names it', () => {
  it("resolves relative paths from the kernel's folder, and answers with absolute ones", async () => {
    const found = await resolveForKernel(path.join(root, 'sub'), 'a.py');
    expect(found).toBe(path.join(root, 'sub', 'a.py'));
    expect(await resolveForKernel(root, 'a.py')).toBeNull();
  });
});
