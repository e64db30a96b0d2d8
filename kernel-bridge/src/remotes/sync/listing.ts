/** What is in a folder here and in one there, for a comparison without rsync. Links are named and never followed. */
import { lstat, readdir } from 'node:fs/promises';
import path from 'node:path';
import type { RemoteShell } from '../contracts.js';
import { RemoteProblem } from '../remote-error.js';
import type { LeavesOut } from './patterns.js';

export interface Entry {
  readonly kind: 'file' | 'link';
  readonly bytes: number;
  /** Unix seconds: archives keep no more. */
  readonly modifiedAt: number;
}

/** By the path relative to the folder. Folders, devices and sockets are not in it. */
export type Listing = ReadonlyMap<string, Entry>;

/** A folder with very many files on a slow disk. */
const LIST_MS = 4 * 60_000;

/** A folder that is not there is empty. Names with line breaks are left out: no list of names could carry them. */
export async function listHere(folder: string, leavesOut: LeavesOut, signal: AbortSignal): Promise<Listing> {
  const found = new Map<string, Entry>();
  const look = async (below: string): Promise<void> => {
    signal.throwIfAborted();
    const entries = await readdir(path.join(folder, below), { withFileTypes: true }).catch(
      (error: unknown) => {
        if (below === '' && (error as NodeJS.ErrnoException).code === 'ENOENT') return [];
        throw error;
      }
    );
    for (const entry of entries) {
      const name = below === '' ? entry.name : `${below}/${entry.name}`;
      if (/[\r\n]/.test(name) || leavesOut(name, entry.isDirectory())) continue;
      if (entry.isDirectory()) await look(name);
      else if (entry.isFile() || entry.isSymbolicLink()) {
        const { size, mtimeMs } = await lstat(path.join(folder, name));
        const kind = entry.isFile() ? 'file' : 'link';
        found.set(name, { kind, bytes: size, modifiedAt: Math.floor(mtimeMs / 1000) });
      }
    }
  };
  await look('');
  return found;
}

/** `stat -c` is that of GNU and of busybox; the last line says that the list is whole. */
const LIST = `cd -- "$1" 2>/dev/null || { echo end; exit 0; }
find . -name '*
*' -prune -o \\( -type f -o -type l \\) -exec stat -c '%f|%s|%Y|%n' {} + && echo end`;

/** @throws RemoteProblem when the folder cannot be listed whole */
export async function listThere(
  shell: RemoteShell,
  folder: string,
  leavesOut: LeavesOut,
  signal: AbortSignal
): Promise<Listing> {
  const found = new Map<string, Entry>();
  const end = { isThere: false };
  const { stderr } = await shell.run(LIST, [folder], {
    signal,
    timeoutMs: LIST_MS,
    onLine: line => {
      end.isThere ||= line === 'end';
      const [, mode = '', bytes, seconds, name] = /^([0-9a-f]+)\|(\d+)\|(-?\d+)\|\.\/(.+)$/.exec(line) ?? [];
      // The list is what the other side says: nothing outside the folder is taken from it.
      if (name === undefined || !isInside(name) || leavesOut(name, false)) return;
      const isLink = (Number.parseInt(mode, 16) & 0xf000) === 0xa000;
      const kind = isLink ? 'link' : 'file';
      found.set(name, { kind, bytes: Number(bytes), modifiedAt: Number(seconds) });
    }
  });
  if (end.isThere) return found;
  throw new RemoteProblem(
    'sync_failed',
    `The folder ${folder} on ${shell.host} could not be read whole (${stderr.trim().split('\n').at(-1) || 'no reason given'}); see who may read it, then sync again.`
  );
}

function isInside(name: string): boolean {
  return name.split('/').every(part => part !== '' && part !== '.' && part !== '..');
}
