/** The arguments of rsync 3 for one direction, and the parser of its output for each file. */
import type { SyncChange, SyncDirection, SyncLeftOut, SyncRequest } from '@tpulab/protocol';
import { viaMaster } from '../ssh/ssh-process.js';
import { skippedBecause, shownName } from './listing.js';

export interface SyncFolders {
  /** Both are absolute paths. */
  readonly local: string;
  readonly remote: string;
}

/** Files that no user needs on the other side. */
export const ALWAYS_EXCLUDED = ['.git/', '__pycache__/', '.ipynb_checkpoints/', 'node_modules/', '.venv/'];

/** One line per file: the change, its bytes, its path. */
const LINE = '%i %l %n';

export function rsyncArguments(
  way: SyncDirection,
  { local, remote }: SyncFolders,
  request: Pick<SyncRequest, 'include' | 'exclude' | 'delete'>,
  ssh: { readonly program: string; readonly controlPath: string },
  dryRun: boolean,
  keepsNewer = false
): string[] {
  const there = `remote:${remote.replace(/\/+$/, '')}/`;
  const here = `${local.replace(/\/+$/, '')}/`;
  return [
    '--archive',
    '--no-owner',
    '--no-group',
    '--compress',
    // Paths with spaces arrive unchanged, and no shell there parses them.
    '--protect-args',
    // Replaces the login shell, whose EXIT trap would print into the protocol: rsync then exited with code 12 or 16 once in
    // forty times.
    '--rsync-path=exec rsync',
    '--partial',
    '--timeout=60',
    `--out-format=${LINE}`,
    // Prints the names of skipped files.
    '--info=name1,nonreg1',
    // No links that lead out of the local folder, and no devices: other people created the files there.
    ...(way === 'from-remote' ? ['--safe-links', '--no-D'] : []),
    ...(dryRun ? ['--dry-run'] : []),
    ...(keepsNewer ? ['--update'] : []),
    ...(request.delete === true ? ['--delete'] : []),
    ...(request.include ?? []).map(pattern => `--include=${pattern}`),
    ...[...ALWAYS_EXCLUDED, ...(request.exclude ?? [])].map(pattern => `--exclude=${pattern}`),
    '-e',
    remoteShell(ssh),
    '--',
    ...(way === 'to-remote' ? [here, there] : [there, here])
  ];
}

/** rsync splits this at spaces and supports quotes; the host that it appends is a placeholder of `viaMaster`. */
function remoteShell({ program, controlPath }: { program: string; controlPath: string }): string {
  const words = viaMaster(controlPath, []);
  // Without `-- remote`, which rsync adds itself.
  return [program, ...words.slice(0, words.indexOf('--'))].map(quoted).join(' ');
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "''")}'`;
}

/** null if the line is not a change of a file: folders, times, and messages of rsync. */
export function changeOf(line: string, way: SyncDirection): SyncChange | null {
  const deleted = /^\*deleting\s+(?:\d+\s+)?(.+)$/.exec(line);
  if (deleted?.[1] !== undefined) return { path: shownName(nameIn(deleted[1])), action: 'delete', bytes: 0 };
  const moved = /^[<>c][fL][\w.+?~]*\s+(\d+)\s(.+)$/.exec(line);
  if (moved?.[1] === undefined || moved[2] === undefined) return null;
  return {
    path: shownName(nameIn(moved[2])),
    action: way === 'to-remote' ? 'send' : 'receive',
    bytes: Number(moved[1])
  };
}

/** In the C locale rsync prints non-ASCII bytes as `\#NNN`. */
function nameIn(text: string): string {
  return text.replace(/\\#([0-3][0-7]{2})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8))
  );
}

/** The file that rsync reports as skipped; null for other lines. */
export function skippedFileIn(line: string): SyncLeftOut | null {
  const other = /^skipping non-regular file "(.+)"$/.exec(line)?.[1];
  if (other !== undefined) return skippedBecause('other', nameIn(other));
  const link = /^(?:ignoring|skipping) unsafe symlink "(.+)" -> ".*"$/.exec(line)?.[1];
  return link === undefined ? null : skippedBecause('leads-out', nameIn(link));
}

/** The files that could not be read or written, parsed from the errors. */
export function failuresIn(words: string, folders: SyncFolders): SyncLeftOut[] {
  return [
    ...words.matchAll(
      /^rsync: \[\w+\] (?!chown|chgrp)[^"\n]*"(.+?)"(?: \(in .+\))? ?(?:failed)?: (.+) \(\d+\)$/gm
    )
  ].map(([, file = '', why = '']) => {
    const name = shownName(nameIn(file));
    const folder = [folders.local, folders.remote].find(one => name.startsWith(`${one}/`));
    return {
      path: folder === undefined ? name : name.slice(folder.length + 1),
      reason: why === 'Permission denied' ? 'cannot be read or written' : why.slice(0, 80),
      failed: true as const
    };
  });
}

/** Checks the output of `--version`. The versions of macOS (2.6.9, openrsync) do not support `--protect-args`. */
export function isUsableRsync(words: string): boolean {
  return Number(/rsync\s+version\s+v?(\d+)\./.exec(words)?.[1] ?? 0) >= 3 && !words.includes('openrsync');
}
