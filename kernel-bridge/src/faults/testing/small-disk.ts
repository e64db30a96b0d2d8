/** A separate small disk, which can be filled and freed. Linux as root only: elsewhere its cases are skipped. */
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export class SmallDisk implements Disposable {
  private constructor(
    private readonly parent: string,
    readonly folder: string
  ) {}

  /** @param files how many files, folders and links it has room for */
  static make(mebibytes: number, files = 100_000): SmallDisk {
    const parent = mkdtempSync(path.join(tmpdir(), 'tpd-'));
    const folder = path.join(parent, 'd');
    mkdirSync(folder);
    try {
      execFileSync(
        'mount',
        ['-t', 'tmpfs', '-o', `size=${mebibytes}m,nr_inodes=${files}`, 'tpulab-faults', folder],
        {
          stdio: 'pipe'
        }
      );
    } catch (error) {
      rmSync(parent, { recursive: true, force: true });
      throw error;
    }
    return new SmallDisk(parent, folder);
  }

  /** Fills the disk completely, including the last pages that other files have reserved. */
  fill(): void {
    const file = openSync(path.join(this.folder, 'ballast'), 'a', 0o600);
    try {
      for (let bytes = 1024 * 1024; bytes >= 1;) {
        try {
          writeSync(file, Buffer.alloc(bytes));
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
          bytes = Math.floor(bytes / 2);
        }
      }
    } finally {
      closeSync(file);
    }
  }

  /** Leaves room for no other file. */
  fillFiles(): void {
    const folder = path.join(this.folder, 'ballast');
    mkdirSync(folder);
    try {
      for (let at = 0; ; at++) writeFileSync(path.join(folder, String(at)), '');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }

  free(): void {
    rmSync(path.join(this.folder, 'ballast'), { recursive: true });
  }

  [Symbol.dispose](): void {
    // Lazily, because a process that is ending may still have a file open on it.
    execFileSync('umount', ['--lazy', this.folder], { stdio: 'pipe' });
    rmSync(this.parent, { recursive: true, force: true });
  }
}

/** Why this machine cannot create one; null when it can. */
export function smallDiskProblem(): string | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    return 'needs Linux and root, for a disk of its own';
  try {
    SmallDisk.make(1)[Symbol.dispose]();
    return null;
  } catch {
    return 'this system does not let root mount a disk';
  }
}
