/** Paths as clients write them: relative to the root folder, with slashes. Nothing here looks at the disk. */
import { FilePathError } from './file-errors.js';

const MAX_PATH_BYTES = 4096;
/** Of one name, on every file system that is common. */
const MAX_NAME_BYTES = 255;
/** Control characters, and the other separator: a name with it means two things on two systems. */
const FORBIDDEN = /[\u0000-\u001f\u007f\\]/;

/**
 * The names on the way to a file. None can be `..`, hidden or a path itself, so joined to a folder they stay below it, as far as no
 * link leads out.
 *
 * @param path decoded
 * @throws FilePathError
 */
export function namesOf(path: string): readonly string[] {
  if (path === '') return [];
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) throw new FilePathError(path, 'is too long');
  const names = path.split('/');
  for (const name of names) {
    if (name === '') throw new FilePathError(path, 'has an empty part');
    if (name.startsWith('.')) throw new FilePathError(path, 'names a hidden file, or leaves its folder');
    if (FORBIDDEN.test(name)) throw new FilePathError(path, 'has a character that no name may have');
    if (Buffer.byteLength(name) > MAX_NAME_BYTES)
      throw new FilePathError(path, 'has a name that is too long');
    if (/\p{Surrogate}/u.test(name)) throw new FilePathError(path, 'is not valid Unicode');
  }
  return names;
}

/** Of a file itself: the root folder is none. @throws FilePathError */
export function fileNamesOf(path: string): readonly [folder: readonly string[], name: string] {
  const names = namesOf(path);
  const name = names.at(-1);
  if (name === undefined) throw new FilePathError(path, 'names the root folder');
  return [names.slice(0, -1), name];
}
