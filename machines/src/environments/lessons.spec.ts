import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { copyLessons, lessonsFolder } from './lessons.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-lessons-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe('the lessons', () => {
  it('are copied, all of them', async () => {
    const target = path.join(folder, 'new', 'lessons');
    const { copied, kept: retained } = await copyLessons(target);
    expect(copied).toContain('00-getting-started.ipynb');
    expect(retained).toEqual([]);
    expect(await readdir(target)).toEqual(copied);
  });

  it('never replace a notebook in which a person has worked', async () => {
    const mine = path.join(folder, '00-getting-started.ipynb');
    await writeFile(mine, 'my work');
    const { copied, kept: retained } = await copyLessons(folder);
    expect(retained).toEqual(['00-getting-started.ipynb']);
    expect(copied).not.toContain('00-getting-started.ipynb');
    expect(await readFile(mine, 'utf8')).toBe('my work');
  });

  it('report why they cannot be copied, and that they are missing', async () => {
    const file = path.join(folder, 'file');
    await writeFile(file, '');
    await expect(copyLessons(file)).rejects.toMatchObject({
      code: 'lessons_not_written',
      message: `The examples could not be copied to ${file}: a file has its name. "tpulab examples FOLDER" copies them to another folder.`
    });
    expect(() => lessonsFolder(path.join(folder, 'a', 'b'))).toThrow(
      expect.objectContaining({ code: 'lessons_missing' })
    );
  });
});
