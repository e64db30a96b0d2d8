import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { installedUv } from './locations.js';
import { findUv } from './uv.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-uv-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function program(...parts: string[]): Promise<string> {
  const file = path.join(folder, ...parts);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, '#!/bin/sh\n');
  await chmod(file, 0o755);
  return file;
}

describe('uv', () => {
  // `npm start` runs the bundle; the command `npx tpulab` of a checkout runs the package.
  it.each(['kernel-bridge', '.tpulab/bridge'])(
    "is the checkout's own for %s, before any on PATH",
    async at => {
      const uv = await program('.tpulab', 'tools', 'bin', 'uv');
      const PATH = path.dirname(await program('bin', 'uv'));
      expect(findUv({ PATH }, installedUv(path.join(folder, at, path.sep)))).toBe(uv);
    }
  );

  it('prefers the uv named in TPULAB_UV to any other', async () => {
    const TPULAB_UV = await program('named');
    const installed = await program('tools', 'bin', 'uv');
    expect(findUv({ TPULAB_UV }, [installed])).toBe(TPULAB_UV);
    expect(() => findUv({ TPULAB_UV: path.join(folder, 'nothing') }, [installed])).toThrow(
      expect.objectContaining({ code: 'env_uv_missing' })
    );
  });

  it('is found on PATH; otherwise the message explains how to install it', async () => {
    const uv = await program('bin', 'uv');
    expect(findUv({ PATH: path.dirname(uv) }, [])).toBe(uv);
    expect(() => findUv({ PATH: folder }, [])).toThrow(/pip install uv/);
  });
});
