import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { makeFolder, readIfThere } from './missing-files.js';

it.runIf(process.platform === 'linux')('a folder that the system cannot create is refused', async () => {
  await expect(makeFolder('/proc/nobody/.local')).rejects.toMatchObject({ code: 'ENOENT' });
});

it('creates the folders above with the same rights, and accepts one that exists', async () => {
  const base = await mkdtemp(path.join(tmpdir(), 'folders-'));
  try {
    const folder = path.join(base, 'a', 'b');
    await Promise.all([makeFolder(folder, 0o700), makeFolder(folder, 0o700)]);
    for (const made of [folder, path.dirname(folder)]) expect((await stat(made)).mode & 0o777).toBe(0o700);
    const file = path.join(base, 'file');
    await writeFile(file, '');
    await expect(makeFolder(path.join(file, 'below'))).rejects.toMatchObject({ code: 'EEXIST' });
    expect(await readIfThere(path.join(file, 'below'))).toBeNull();
  } finally {
    await rm(base, { recursive: true });
  }
});
