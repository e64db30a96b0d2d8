/** Distinguishes a disk without space, a disk that can hold no more files, and an exceeded user quota. */
import { statfsSync } from 'node:fs';
import path from 'node:path';

export interface FullDisk {
  /** A clause: "the disk is full". */
  readonly why: string;
  /** A clause: "free some space". */
  readonly remedy: string;
}

/** null: the failure has another cause. */
export function fullDisk(error: unknown): FullDisk | null {
  const { code, path: file, syscall } = error as NodeJS.ErrnoException;
  if (code === 'EDQUOT')
    return {
      why: 'your quota on the disk is used up',
      remedy: 'remove files ("quota -s" shows whether their size or their number is at its limit)'
    };
  if (code !== 'ENOSPC') return null;
  if (file !== undefined && syscall !== 'write' && hasNoInodes(path.dirname(file)))
    return { why: 'the disk has no room for more files (inodes)', remedy: 'remove files that nobody needs' };
  return { why: 'the disk is full', remedy: 'free some space' };
}

function hasNoInodes(folder: string): boolean {
  try {
    // Some file systems do not count them.
    const { files, ffree } = statfsSync(folder);
    return files > 0 && ffree === 0;
  } catch {
    return false;
  }
}
