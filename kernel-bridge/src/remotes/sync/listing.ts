/** What is in a folder here and in one there, for a comparison without rsync. Links are named and never followed. */
import path from 'node:path';
import { lstat, readdir } from 'node:fs/promises';
import type { RemoteShell } from '../contracts.js';
import { RemoteProblem } from '../remote-error.js';

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
    `The folder ${folder} on ${shell.host} could not be read completely (${stderr.trim().split('\n').at(-1) || 'no reason given'}); check its permissions, then sync again.`
  );
}

function isInside(name: string): boolean {
  return name.split('/').every(part => part !== '' && part !== '.' && part !== '..');
}

/** Whether a path relative to the folder is left out; the first pattern that matches decides. */
export type LeavesOut = (path: string, isFolder: boolean) => boolean;

/** What is in a folder that is left out is left out too. */
export function patternsOf(include: readonly string[], exclude: readonly string[]): LeavesOut {
  const rules = [
    ...include.map(pattern => ({ matches: matcher(pattern), isOut: false })),
    ...exclude.map(pattern => ({ matches: matcher(pattern), isOut: true }))
  ];
  const judged = (path: string, isFolder: boolean): boolean =>
    rules.find(({ matches }) => matches(path, isFolder))?.isOut ?? false;
  return (path, isFolder) => {
    const parts = path.split('/');
    const isBelow = parts.slice(0, -1).some((_, at) => judged(parts.slice(0, at + 1).join('/'), true));
    return isBelow || judged(path, isFolder);
  };
}

/**
 * As rsync's manual has it: `/` in front ties the pattern to the folder, `/` behind means folders only, and a pattern with neither `/`
 * nor `**` is for the last part of the path.
 */
function matcher(pattern: string): LeavesOut {
  const isForFolders = pattern.endsWith('/');
  const isTied = pattern.startsWith('/');
  const body = pattern.replace(/^\//, '').replace(/\/$/, '');
  const isPath = isTied || body.includes('/') || body.includes('**');
  // `folder/***` is the folder and all that is in it.
  const source = body.endsWith('/***') ? `${sourceOf(body.slice(0, -4))}(?:/.*)?` : sourceOf(body);
  const regex = new RegExp(`${isTied ? '^' : '(?:^|/)'}${source}$`);
  return (path, isFolder) =>
    (isFolder || !isForFolders) && regex.test(isPath ? path : (path.split('/').at(-1) ?? ''));
}

function sourceOf(pattern: string): string {
  return pattern.replace(
    /\\(.)|\*{2,}|\*|\?|\[(!|\^)?((?:\\.|[^\]\\])+)\]|[.+^${}()|[\]\\]/g,
    (found: string, escaped?: string, not?: string, set?: string) => {
      if (escaped !== undefined) return escaped.replace(/[^\w]/g, '\\$&');
      if (found.startsWith('**')) return '.*';
      if (found === '*') return '[^/]*';
      if (found === '?') return '[^/]';
      if (set !== undefined) return `[${not === undefined ? '' : '^/'}${set.replaceAll('[', '\\[')}]`;
      return `\\${found}`;
    }
  );
}
