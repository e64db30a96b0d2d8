import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Type } from '@sinclair/typebox';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { StoredList } from './stored-list.js';

let folder: string;
let file: string;
const faults: (string | null)[] = [];

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'list-'));
  // A disk that refuses: the folder does not exist.
  file = path.join(folder, 'absent', 'names.json');
  faults.length = 0;
});

afterEach(() => rm(folder, { recursive: true }));

function list(): StoredList<ReturnType<typeof Type.String>> {
  return new StoredList({
    file,
    name: 'names',
    record: Type.String(),
    log: pino({ level: 'silent' }),
    onFault: error => faults.push(error === null ? null : ((error as NodeJS.ErrnoException).code ?? ''))
  });
}

describe('a list in a file', () => {
  it('that the disk refuses is written when it works again, without another change', async () => {
    const names = list();
    await expect(names.save(['a'])).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(names.save(['a', 'b'])).rejects.toMatchObject({ code: 'ENOENT' });
    expect(faults).toEqual(['ENOENT']);
    await mkdir(path.dirname(file));
    await vi.waitFor(() => expect(faults).toEqual(['ENOENT', null]), { timeout: 50_000 });
    expect(await list().load()).toEqual(['a', 'b']);
  });

  it('is tried once more when its program ends', async () => {
    const names = list();
    await expect(names.save(['a'])).rejects.toMatchObject({ code: 'ENOENT' });
    await names.settled();
    await mkdir(path.dirname(file));
    await names.settled();
    expect(await list().load()).toEqual(['a']);
  });

  it.each(['', '{"version":1,"names":["a"', '\0\0\0\0'])(
    'that a power loss left as %j counts as absent, and is archived',
    async text => {
      await mkdir(path.dirname(file));
      await writeFile(file, text);
      expect(await list().load()).toEqual([]);
      expect(await readFile(`${file}.damaged`, 'utf8')).toBe(text);
    }
  );
});
