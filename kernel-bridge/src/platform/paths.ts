/** Questions about paths that no file is opened for. */
import path from 'node:path';

/** Whether an absolute path is this folder or lies below it, by its name alone; below `/` lies everything. */
export function isWithin(folder: string, file: string): boolean {
  const relative = path.relative(folder, file);
  return relative !== '..' && !relative.startsWith(`..${path.sep}`);
}
