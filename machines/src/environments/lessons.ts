/** The bundled notebooks, and copies of them for a person to work in. */
import { constants, existsSync } from 'node:fs';
import { copyFile, readdir } from 'node:fs/promises';
import { makeFolder } from '@tpulab/platform/missing-files.js';
import path from 'node:path';
import type { LessonsCopied } from '@tpulab/protocol';
import { EnvironmentError } from './environment-error.js';
import { fullDisk } from '@tpulab/platform/full-disk.js';
import { PACKAGE_FOLDER } from './locations.js';

/** In a package, beside the program; in a checkout, the folder `notebooks` beside `kernel-bridge` and around the bundle. */
const LESSON_FOLDERS = ['lessons', '../notebooks', '../../notebooks'];

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'you may not write there',
  EPERM: 'you may not write there',
  EROFS: 'its disk is read-only',
  EEXIST: 'a file has its name',
  ENOTDIR: 'a file has its name'
};

/** @throws EnvironmentError */
export function lessonsFolder(packageFolder: string = PACKAGE_FOLDER): string {
  const found = LESSON_FOLDERS.map(place => path.resolve(packageFolder, place)).find(folder =>
    existsSync(folder)
  );
  if (found !== undefined) return found;
  throw new EnvironmentError(
    'lessons_missing',
    'This installation has no lessons; reinstall the package of the server.'
  );
}

/**
 * Copies the lessons. An existing notebook may contain a person's work, so it is kept.
 *
 * @throws EnvironmentError
 */
export async function copyLessons(folder: string, from: string = lessonsFolder()): Promise<LessonsCopied> {
  const copied: string[] = [];
  const unchanged: string[] = [];
  try {
    await makeFolder(folder);
    for (const name of (await readdir(from)).filter(file => file.endsWith('.ipynb')).sort()) {
      try {
        await copyFile(path.join(from, name), path.join(folder, name), constants.COPYFILE_EXCL);
        copied.push(name);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
        unchanged.push(name);
      }
    }
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    throw new EnvironmentError(
      'lessons_not_written',
      `The examples could not be copied to ${folder}: ${fullDisk(error)?.why ?? REASONS[code] ?? code}. "tpulab examples FOLDER" copies them to another folder.`,
      { cause: error }
    );
  }
  return { folder, copied, kept: unchanged };
}
