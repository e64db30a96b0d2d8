// @ts-check
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { explainSkipped, missingPrograms } from './openssh.mjs';

describe('the programs of the specs that reach a machine over ssh', () => {
  let folder = '';
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tpulab-programs-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  /** @param {readonly string[]} names */
  async function put(...names) {
    for (const name of names) {
      await writeFile(path.join(folder, name), '');
      await chmod(path.join(folder, name), 0o755);
    }
  }

  it('are searched one by one: sshd does not imply rsync', async () => {
    await put('sshd', 'ssh', 'ip');
    expect(missingPrograms({ PATH: folder }, [])).toEqual(['rsync']);
    expect(explainSkipped(['rsync'])).toEqual(['without rsync, the specs that sync a folder are skipped']);
  });

  it('are also found where PATH does not lead, and nothing is missing then', async () => {
    await put('sshd', 'ssh', 'ip', 'rsync');
    expect(missingPrograms({ PATH: '' }, [folder])).toEqual([]);
  });

  it('must be programs: a file that cannot be run does not count', async () => {
    await put('sshd', 'ssh', 'rsync');
    await writeFile(path.join(folder, 'ip'), '');
    expect(missingPrograms({ PATH: folder }, [])).toEqual(['ip']);
  });
});
