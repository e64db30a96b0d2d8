/** A state folder as a machine finds it after a power loss: only synced data is on the disk. */
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';

/**
 * The state of unsynced data: `cut`, files end where their last sync ended; `zeros`, they keep their length; `names`, like
 * `cut`, but a file whose name was not synced either does not exist.
 */
export type Loss = 'cut' | 'zeros' | 'names';
export const LOSSES: readonly Loss[] = ['cut', 'zeros', 'names'];

interface SyncNote {
  readonly path: string;
  readonly ino: number;
  readonly birthtimeMs: number;
  readonly size: number;
  /** For a folder: names and inodes. */
  readonly entries: readonly (readonly [string, number])[] | null;
}

export interface StoredFile {
  /** Path in the state folder. */
  readonly file: string;
  readonly bytes: Buffer;
  /** Bytes known to be on the disk after each sync. */
  readonly syncs: readonly number[];
  /** Whether the file is known to exist under this name. */
  readonly isNamed: boolean;
}

/** Every file of a state folder that is no longer in use; requires a build that records its syncs (`syncsNoted`). */
export async function storedFiles(stateDir: string): Promise<StoredFile[]> {
  const notes = (await readFile(`${stateDir}.syncs`, 'utf8'))
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as SyncNote);
  const entries = await readdir(stateDir, { recursive: true, withFileTypes: true });
  return Promise.all(
    entries
      .filter(entry => entry.isFile())
      .map(async entry => {
        const place = path.join(entry.parentPath, entry.name);
        const [bytes, { ino, birthtimeMs }] = await Promise.all([readFile(place), stat(place)]);
        const own = notes.filter(note => note.ino === ino && note.birthtimeMs === birthtimeMs);
        const isInFolder = ({ path: folder, entries: names }: SyncNote): boolean =>
          folder === entry.parentPath &&
          names?.some(([name, of]) => name === entry.name && of === ino) === true;
        return {
          file: path.relative(stateDir, place),
          bytes,
          syncs: own.map(({ size }) => size),
          // A sync of a file under its original name also puts that name on the disk.
          isNamed: own.some(note => note.path === place) || notes.some(isInFolder)
        };
      })
  );
}

/** Writes the files that the machine finds. Sockets are not included, as after a reboot. */
export async function powerLoss(files: readonly StoredFile[], loss: Loss, stateDir: string): Promise<void> {
  for (const { file, bytes, syncs, isNamed } of files) {
    if (loss === 'names' && !isNamed) continue;
    const found = bytes.subarray(0, syncs.at(-1) ?? 0);
    const place = path.join(stateDir, file);
    await mkdir(path.dirname(place), { recursive: true, mode: 0o700 });
    const lost = loss === 'zeros' ? Buffer.alloc(bytes.length - found.length) : Buffer.alloc(0);
    await writeFile(place, Buffer.concat([found, lost]), { mode: 0o600 });
  }
}
