/** Files that are replaced as a whole: even if this program is killed, a file has either its old or its new content. */
import { randomUUID } from 'node:crypto';
import { constants, renameSync, rmSync, writeFileSync } from 'node:fs';
import { access, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';

interface WriteOptions {
  /** Permissions, 0600 unless given. */
  readonly mode?: number;
}

/** When this resolves, content and name are on the disk, and survive a power loss. An object is written as JSON. */
export async function writeAtomically(
  file: string,
  content: string | object,
  options: WriteOptions = {}
): Promise<void> {
  await replace(file, content, true, options);
  await syncFolder(path.dirname(file));
}

/**
 * For files that describe processes of this machine, or can be recreated, and so are not worth a sync: after a power loss the file may be
 * old, empty or absent. A reader must treat an incomplete one as absent.
 */
export async function writeForThisBoot(file: string, content: string | object): Promise<void> {
  await replace(file, content, false);
}

/** As `writeForThisBoot`, but synchronous. */
export function writeForThisBootSync(file: string, content: string | object): void {
  const draft = draftOf(file);
  try {
    writeFileSync(draft, textOf(content), { mode: 0o600 });
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

/** Replacing a file needs only the permissions of its folder: the file's own are respected too. True if it does not exist. */
export function isWritable(at: string): Promise<boolean> {
  return access(at, constants.W_OK).then(
    () => true,
    (error: unknown) => (error as NodeJS.ErrnoException).code === 'ENOENT'
  );
}

/** Makes the names in a folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function replace(
  file: string,
  content: string | object,
  isDurable: boolean,
  { mode = 0o600 }: WriteOptions = {}
): Promise<void> {
  const draft = draftOf(file);
  try {
    const handle = await open(draft, 'wx', mode);
    try {
      // The umask does not apply to an explicitly chosen mode.
      if (mode !== 0o600) await handle.chmod(mode);
      await handle.writeFile(textOf(content));
      if (isDurable) await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** A separate draft for each call: two concurrent writes of the same file must not share one. */
function draftOf(file: string): string {
  return `${file}.${randomUUID()}.tmp`;
}

function textOf(content: string | object): string {
  return typeof content === 'string' ? content : `${JSON.stringify(content, null, 2)}\n`;
}
