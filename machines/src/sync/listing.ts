/** The contents of a local and a remote folder, for a comparison without rsync. Links are named and never followed. */
import { access, constants, lstat, readdir } from 'node:fs/promises';
import type { SyncLeftOut } from '@tpulab/protocol';
import { plainText } from '@tpulab/platform/plain-text.js';
import type { RemoteShell } from '../machine.js';
import { RemoteProblem } from '../remote-error.js';

export interface Entry {
  readonly kind: 'file' | 'link' | 'folder' | 'other';
  readonly bytes: number;
  /** Unix seconds: archives have no finer resolution. */
  readonly modifiedAt: number;
}

export interface Listing {
  /** By the path relative to the folder, one character per byte (latin1): a name need not be UTF-8. */
  readonly entries: ReadonlyMap<string, Entry>;
  /** Paths that could not be read. */
  readonly unread: readonly string[];
}

/** Time limit for a folder with very many files on a slow disk. */
const LIST_MS = 4 * 60_000;

/** The path as bytes, for system calls. */
export function pathOf(folder: string, name: string): Buffer {
  return Buffer.concat([Buffer.from(`${folder}/`), Buffer.from(name, 'latin1')]);
}

const ODD =
  /[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}|[\x00-\x1f\x7f-\xff]/g;

/** The name on one line, for people: bytes that are not text become `\xNN`. */
export function shownName(name: string): string {
  const text = name.replace(ODD, found =>
    found.length > 1
      ? Buffer.from(found, 'latin1').toString('utf8')
      : ({ '\n': '\\n', '\r': '\\r', '\t': '\\t' }[found] ??
        `\\x${found.charCodeAt(0).toString(16).padStart(2, '0')}`)
  );
  return plainText(text);
}

const asText = (name: string): string => Buffer.from(name, 'latin1').toString('utf8');

export function skippedBecause(kind: 'link' | 'other' | 'unread' | 'leads-out', name: string): SyncLeftOut {
  const path = shownName(name);
  switch (kind) {
    case 'link':
      return { path, reason: 'a link' };
    case 'leads-out':
      return { path, reason: 'a link that leads out' };
    case 'other':
      return { path, reason: 'a pipe, socket or device' };
    default:
      return { path, reason: 'cannot be read', failed: true };
  }
}

/** A missing folder counts as empty. */
export async function listLocal(folder: string, excludes: Excludes, signal: AbortSignal): Promise<Listing> {
  const entries = new Map<string, Entry>();
  const unread: string[] = [];
  const walk = async (below: string): Promise<void> => {
    signal.throwIfAborted();
    const found = await readdir(pathOf(folder, below), { withFileTypes: true, encoding: 'buffer' }).catch(
      (error: unknown) => {
        if (below === '' && (error as NodeJS.ErrnoException).code === 'ENOENT') return [];
        if (below === '') throw error;
        unread.push(below);
        return [];
      }
    );
    for (const entry of found) {
      const last = entry.name.toString('latin1');
      const name = below === '' ? last : `${below}/${last}`;
      const kind = entry.isDirectory()
        ? 'folder'
        : entry.isFile()
          ? 'file'
          : entry.isSymbolicLink()
            ? 'link'
            : 'other';
      if (excludes(asText(name), kind === 'folder')) continue;
      const file = pathOf(folder, name);
      const about = await lstat(file).catch(() => null);
      if (about === null) continue;
      if (kind === 'file' && !(await isReadable(file))) {
        unread.push(name);
        continue;
      }
      entries.set(name, { kind, bytes: about.size, modifiedAt: Math.floor(about.mtimeMs / 1000) });
      if (kind === 'folder') await walk(name);
    }
  };
  await walk('');
  return { entries, unread };
}

function isReadable(file: Buffer): Promise<boolean> {
  return access(file, constants.R_OK).then(
    () => true,
    () => false
  );
}

/**
 * In Base64, because names are bytes; the last entry is the exit status of `find`. Busybox's `find` has no -printf: its
 * `stat` prints one name per line, so that names with line breaks, and folders, are missing there.
 */
const LIST = `cd -- "$1" 2>/dev/null || { printf 'end|0' | base64; exit 0; }
if find . -maxdepth 0 -printf '' 2>/dev/null; then
  { find . -mindepth 1 -printf '%y|%s|%Ts|%p\\0'; printf 'end|%s' $?; } | base64
else
  { find . -name '*
*' -prune -o \\( -type f -o -type l \\) -exec stat -c '%F|%s|%Y|%n' {} + | tr '\\n' '\\0'; printf 'end|0'; } | base64
fi`;
const KINDS = new Map<string, Entry['kind']>([
  ['f', 'file'],
  ['l', 'link'],
  ['d', 'folder'],
  ['regular file', 'file'],
  ['regular empty file', 'file'],
  ['symbolic link', 'link']
]);

/** @throws RemoteProblem if the folder cannot be listed at all */
export async function listRemote(
  shell: RemoteShell,
  folder: string,
  excludes: Excludes,
  signal: AbortSignal
): Promise<Listing> {
  const entries = new Map<string, Entry>();
  const chunks: string[] = [];
  const { stderr } = await shell.run(LIST, [folder], {
    signal,
    timeoutMs: LIST_MS,
    onLine: line => chunks.push(line)
  });
  const records = Buffer.from(chunks.join(''), 'base64').toString('latin1').split('\0');
  const unread = [...stderr.matchAll(/^find: ['\u2018]\.\/(.+)['\u2019]: /gm)].map(([, name = '']) =>
    Buffer.from(name).toString('latin1')
  );
  const last = records.pop() ?? '';
  if (last !== 'end|0' && !(last.startsWith('end|') && unread.length > 0)) {
    throw new RemoteProblem(
      'sync_failed',
      `The folder ${folder} on ${shell.host} could not be read completely (${plainText(stderr.trim().split('\n').at(-1) || 'no reason given', 300)}); check its permissions, then sync again.`
    );
  }
  for (const record of records) {
    const [, type = '', bytes, seconds, name] = /^([a-z ]+)\|(\d+)\|(-?\d+)\|\.\/([^]+)$/i.exec(record) ?? [];
    const kind = KINDS.get(type) ?? 'other';
    // The other side controls this list: paths outside the folder are ignored.
    if (name === undefined || !isInside(name) || excludes(asText(name), kind === 'folder')) continue;
    entries.set(name, { kind, bytes: Number(bytes), modifiedAt: Number(seconds) });
  }
  return { entries, unread };
}

function isInside(name: string): boolean {
  return name.split('/').every(part => part !== '' && part !== '.' && part !== '..');
}

/** Whether a path relative to the folder is excluded; the first matching pattern decides. */
type Excludes = (path: string, isFolder: boolean) => boolean;

/** The contents of an excluded folder are excluded, too. */
export function patternsOf(include: readonly string[], exclude: readonly string[]): Excludes {
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
 * The syntax of rsync's manual: a leading `/` anchors the pattern at the folder, a trailing `/` means folders only, and a pattern
 * without `/` and `**` matches the last part of the path.
 */
function matcher(pattern: string): Excludes {
  const isForFolders = pattern.endsWith('/');
  const isAnchored = pattern.startsWith('/');
  const body = pattern.replace(/^\//, '').replace(/\/$/, '');
  const isPath = isAnchored || body.includes('/') || body.includes('**');
  // `folder/***` means the folder and all of its contents.
  const source = body.endsWith('/***') ? `${sourceOf(body.slice(0, -4))}(?:/.*)?` : sourceOf(body);
  const regex = new RegExp(`${isAnchored ? '^' : '(?:^|/)'}${source}$`);
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
