/** Path checks that open no file. */
import path from 'node:path';

/** Whether an absolute path is this folder or below it, by its name alone; everything is below `/`. */
export function isWithin(folder: string, file: string): boolean {
  const relative = path.relative(folder, file);
  return relative !== '..' && !relative.startsWith(`..${path.sep}`);
}
