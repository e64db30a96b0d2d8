// @ts-check
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fingerprint } from './fingerprint.mjs';

/** @type {string} */
let folder;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-print-'));
  await mkdir(path.join(folder, 'src', 'deep'), { recursive: true });
  await writeFile(path.join(folder, 'src', 'deep', 'a.ts'), 'one');
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

const print = () => fingerprint({ files: [path.join(folder, 'src')] });

describe('a fingerprint', () => {
  it('is the same for the same files', async () => {
    expect(await print()).toBe(await print());
  });

  it('changes with a content, a name, a new file and a removed file', async () => {
    const seen = [await print()];
    const file = path.join(folder, 'src', 'deep', 'a.ts');
    await writeFile(file, 'two');
    seen.push(await print());
    await rename(file, path.join(folder, 'src', 'deep', 'b.ts'));
    seen.push(await print());
    await writeFile(path.join(folder, 'src', 'c.ts'), '');
    seen.push(await print());
    await rm(path.join(folder, 'src', 'deep', 'b.ts'));
    seen.push(await print());
    await rm(path.join(folder, 'src'), { recursive: true });
    seen.push(await print());
    expect(new Set(seen).size).toBe(seen.length);
  });

  it('does not change with built files', async () => {
    const before = await print();
    await mkdir(path.join(folder, 'src', 'lib'));
    await writeFile(path.join(folder, 'src', 'lib', 'a.js'), 'built');
    await writeFile(path.join(folder, 'src', 'x.tsbuildinfo'), '{}');
    expect(await print()).toBe(before);
  });

  it('distinguishes texts', async () => {
    expect(await fingerprint({ texts: ['ab', 'c'] })).not.toBe(await fingerprint({ texts: ['a', 'bc'] }));
  });
});
