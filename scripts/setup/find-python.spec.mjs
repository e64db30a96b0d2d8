// @ts-check
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { findPython } from './find-python.mjs';

/** @type {string} */
let folder;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-python-'));
  vi.stubEnv('TPULAB_PYTHON', '');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true, force: true });
});

/**
 * A program that answers the probe like a Python of this version.
 *
 * @param {string} name
 * @param {number} minor
 * @param {{ freeThreaded?: boolean, venv?: boolean }} [more]
 */
async function python(name, minor, { freeThreaded = false, venv = true } = {}) {
  const file = path.join(folder, name);
  const lines = [file, 3, minor, freeThreaded ? 1 : 0, venv ? 'venv' : 'no venv'];
  await writeFile(file, `#!/bin/sh\nprintf '%s\\n' ${lines.map(line => `'${line}'`).join(' ')}\n`);
  await chmod(file, 0o755);
  return file;
}

describe('the Python of the environments', () => {
  it('is the first fitting one', async () => {
    const names = [await python('old', 9), await python('new', 14), await python('right', 12)];
    expect(await findPython(undefined, ['/nowhere/python', ...names])).toEqual({
      path: path.join(folder, 'right'),
      version: '3.12'
    });
  });

  it('is the newest one that the notebooks run on', async () => {
    for (const minor of [11, 12, 13, 14]) await python(`python3.${minor}`, minor);
    vi.stubEnv('PATH', folder + path.delimiter + process.env['PATH']);
    expect((await findPython()).path).toBe(path.join(folder, 'python3.13'));
  });

  it('is the named one, before all others', async () => {
    vi.stubEnv('TPULAB_PYTHON', await python('named', 13));
    expect((await findPython(undefined, [await python('other', 11)])).version).toBe('3.13');
  });

  it('is requested when only others exist', async () => {
    const names = [await python('old', 9), await python('odd', 13, { freeThreaded: true })];
    await expect(findPython(undefined, names)).rejects.toMatchObject({
      code: 'wrong-python',
      message: expect.stringContaining('Only Python 3.9, 3.13 was found')
    });
    await expect(findPython(undefined, [])).rejects.toThrow('No Python 3 was found');
  });

  it('is required to have the module venv', async () => {
    await expect(findPython(undefined, [await python('bare', 11, { venv: false })])).rejects.toMatchObject({
      code: 'python-without-venv',
      message: expect.stringContaining('python3.11-venv')
    });
  });
});
