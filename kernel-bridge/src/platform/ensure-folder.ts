/** One folder where nothing has its name yet. Of what has it, nothing is said: it may be a file or a link. */
import { mkdir } from 'node:fs/promises';

export async function ensureFolder(at: string, mode?: number): Promise<void> {
  try {
    await mkdir(at, mode);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
