/**
 * Copies a folder if one of the two machines has no usable rsync: files with another size or time are sent as one archive over the
 * open connection. Regular files and folders only, each below the folder: links are neither copied nor written through.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir, mkdtemp, rename, rm, rmdir } from 'node:fs/promises';
import { Readable } from 'node:stream';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { SyncChange, SyncLeftOut, SyncRequest } from '@tpulab/protocol';
import { plainText } from '@tpulab/platform/plain-text.js';
import { RemoteProblem } from '../remote-error.js';
import { explainHost } from '../ssh/explain.js';
import type { SshShell } from '../ssh/ssh-shell.js';
import {
  skippedBecause,
  type Listing,
  listLocal,
  listRemote,
  pathOf,
  patternsOf,
  shownName
} from './listing.js';
import { ALWAYS_EXCLUDED, type SyncFolders } from './rsync-arguments.js';

interface TarSync {
  readonly request: SyncRequest;
  readonly folders: SyncFolders;
  readonly shell: SshShell;
  readonly signal: AbortSignal;
}

const ERROR_CHARACTERS = 8_192;

/** A change with the bytes of its file name. */
interface TarChange extends SyncChange {
  readonly name: string;
}

interface TarPlan {
  readonly changes: readonly TarChange[];
  /** Folders without a file, which are created. */
  readonly folders: readonly string[];
  readonly leftOut: readonly SyncLeftOut[];
}

/** The changes, in the order of their names. @throws RemoteProblem if a link is in the way */
export async function planTar({ request, folders, shell, signal }: TarSync): Promise<TarPlan> {
  const excludes = patternsOf(request.include ?? [], [...ALWAYS_EXCLUDED, ...(request.exclude ?? [])]);
  const [here, there] = await Promise.all([
    listLocal(folders.local, excludes, signal),
    listRemote(shell, folders.remote, excludes, signal)
  ]);
  const isSent = request.direction === 'to-remote';
  const [from, to] = isSent ? [here, there] : [there, here];
  const where = isSent ? shell.host : 'this machine';
  const leftOut = from.unread.map(name => skippedBecause('unread', name));
  const copied: TarChange[] = [];
  for (const [name, { kind, bytes, modifiedAt }] of from.entries) {
    if (kind === 'link' || kind === 'other') leftOut.push(skippedBecause(kind, name));
    if (kind !== 'file') continue;
    const other = to.entries.get(name);
    if (other?.bytes === bytes && other.modifiedAt === modifiedAt) continue;
    refuseLinks(name, to, where);
    const isNewer = other !== undefined && other.modifiedAt > modifiedAt;
    const action = isSent ? 'send' : 'receive';
    copied.push({ name, path: shownName(name), action, bytes, ...(isNewer && { newer: true }) });
  }
  const full = new Set(
    [...from.entries.keys()].map(name => name.slice(0, Math.max(name.lastIndexOf('/'), 0)))
  );
  const empty = [...from.entries].flatMap(([name, { kind }]) =>
    kind === 'folder' && !full.has(name) && !to.entries.has(name) && !from.unread.includes(name) ? [name] : []
  );
  for (const name of empty) refuseLinks(name, to, where);
  // An unreadable folder may contain the file.
  const isListed = (name: string): boolean =>
    from.entries.has(name) || from.unread.some(one => name === one || name.startsWith(`${one}/`));
  const deleted = [...to.entries].flatMap(([name, { kind }]): TarChange[] =>
    request.delete !== true || kind !== 'file' || isListed(name)
      ? []
      : [{ name, path: shownName(name), action: 'delete', bytes: 0 }]
  );
  const changes = [...copied, ...deleted].sort((a, b) => (a.path < b.path ? -1 : 1));
  return { changes, folders: empty, leftOut };
}

export async function copyByTar(
  sync: TarSync,
  { changes, folders }: TarPlan,
  events: { onChange(change: SyncChange): void; onLeftOut(one: SyncLeftOut): void }
): Promise<void> {
  const copied = changes.filter(({ action }) => action !== 'delete');
  const isSent = sync.request.direction === 'to-remote';
  const names = [...folders, ...copied.map(({ name }) => name)];
  // Archives preserve the order of the names, but programs print the names in different forms.
  let reported = 0;
  const next = (): void => {
    const change = copied[reported++ - folders.length];
    if (change) events.onChange(change);
  };
  if (names.length > 0) {
    const missed = await (isSent ? send : receive)(sync, names, next);
    while (reported < names.length - missed.length) next();
    for (const one of missed) events.onLeftOut(one);
  }
  const deleted = changes.filter(({ action }) => action === 'delete');
  if (deleted.length > 0) await (isSent ? deleteRemote : deleteLocal)(sync, deleted);
  for (const change of deleted) events.onChange(change);
}

/** A link in place of a folder would redirect the file to the link's target. */
function refuseLinks(name: string, to: Listing, where: string): void {
  const parts = name.split('/');
  const link = parts
    .map((_, at) => parts.slice(0, at + 1).join('/'))
    .find(one => to.entries.get(one)?.kind === 'link');
  if (link === undefined) return;
  throw new RemoteProblem(
    'sync_bad_folder',
    `${shownName(link)} on ${where} is a link, and sync does not write through links; remove it, or exclude it with a pattern.`
  );
}

const UNPACK = `mkdir -p -- "$1" && cd -- "$1" && exec tar -x -v -p -o -f -`;

async function send(
  { folders, shell, signal }: TarSync,
  names: readonly string[],
  next: () => void
): Promise<SyncLeftOut[]> {
  const args = ['-c', '--no-recursion', '-f', '-', '-C', folders.local, '--null', '-T', '-'];
  const tar = await startTar(args, signal);
  tar.child.stdin?.end(listOf(names));
  const result = await shell.stream(UNPACK, [folders.remote], {
    signal,
    stdin: tar.child.stdout ?? undefined,
    onLine: next
  });
  const { code, words } = await tar.ended();
  if (result.code !== 0) throw copyProblem(result.stderr, shell.host, shell.host);
  return missedIn(code, words, shell.host);
}

function listOf(names: readonly string[]): Buffer {
  return Buffer.from(names.map(name => `./${name}\0`).join(''), 'latin1');
}

/** Busybox's tar reads one name from each line. */
const PACK = `cd -- "$1" || exit 1
export LC_ALL=C
if tar --version 2>/dev/null | grep -q GNU; then exec tar -c --no-recursion --null -f - -T -; fi
tr '\\0' '\\n' | tar -c -f - -T -`;

/**
 * Unpacks into a separate folder beside the target, and moves file by file from there: other files that the remote side
 * packs stay there and are removed, and so is everything that is not a regular file.
 */
async function receive(
  { folders, shell, signal }: TarSync,
  names: readonly string[],
  next: () => void
): Promise<SyncLeftOut[]> {
  const { local, remote } = folders;
  await mkdir(local, { recursive: true });
  const staging = await mkdtemp(path.join(local, '.tpulab-sync-'));
  try {
    const tar = await startTar(['-x', '-v', '-p', '-o', '-f', '-', '-C', staging], signal);
    for (const stream of [tar.child.stdout, tar.child.stderr]) {
      if (stream) createInterface({ input: stream }).on('line', next);
    }
    const result = await shell.stream(PACK, [remote], {
      signal,
      stdin: Readable.from([listOf(names)]),
      ...(tar.child.stdin ? { into: tar.child.stdin } : {})
    });
    const { code, words } = await tar.ended();
    if (code !== 0) throw copyProblem(words, shell.host, null);
    const missed = missedIn(result.code, result.stderr, shell.host);
    const missedPaths = new Set(missed.map(one => one.path));
    for (const name of names) {
      if ((await place(staging, local, name)) || missedPaths.has(shownName(name))) continue;
      missed.push({ path: shownName(name), reason: 'did not arrive', failed: true });
    }
    return missed;
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/** The files that tar skipped while it continued. @throws RemoteProblem if it failed as a whole */
function missedIn(code: number | null, words: string, host: string): SyncLeftOut[] {
  const missed = [...words.matchAll(/^tar: \.\/(.+): Cannot (?:open|stat|read)[^:]*: (.+)$/gm)].map(
    ([, name = '', why = '']): SyncLeftOut => ({
      path: plainText(name),
      reason: /Permission denied/.test(why) ? 'cannot be read' : plainText(why, 80),
      failed: true
    })
  );
  if (code !== 0 && code !== 1 && (code !== 2 || missed.length === 0)) throw copyProblem(words, host, null);
  return missed;
}

/** Whether the file is in place now. */
async function place(staging: string, local: string, name: string): Promise<boolean> {
  const made = pathOf(staging, name);
  const kind = (await isRealBelow(staging, name)) ? await lstat(made).catch(() => null) : null;
  if (kind?.isFile() !== true && kind?.isDirectory() !== true) return false;
  const parts = name.split('/');
  const folders = kind.isDirectory() ? parts : parts.slice(0, -1);
  for (let depth = 1; depth <= folders.length; depth++) {
    const below = folders.slice(0, depth).join('/');
    const folder = pathOf(local, below);
    await mkdir(folder).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    });
    if (!(await lstat(folder)).isDirectory()) {
      throw new RemoteProblem(
        'sync_bad_folder',
        `${path.join(local, shownName(below))} is not a folder; move it, then sync again.`
      );
    }
  }
  if (kind.isFile()) await rename(made, pathOf(local, name));
  return true;
}

/** Whether all folders of the path are real folders, not links. */
async function isRealBelow(root: string, name: string): Promise<boolean> {
  const parts = name.split('/');
  for (let depth = 1; depth < parts.length; depth++) {
    const folder = pathOf(root, parts.slice(0, depth).join('/'));
    if (!(await lstat(folder).catch(() => null))?.isDirectory()) return false;
  }
  return true;
}

const DELETE = `cd -- "$1" || exit 1
exec xargs -0 sh -c 'for name; do
  rm -f -- "$name" || exit 255
  folder=$(dirname -- "$name")
  while [ "$folder" != . ] && rmdir -- "$folder" 2>/dev/null; do folder=$(dirname -- "$folder"); done
done' sh`;
const DELETE_MS = 5 * 60_000;

async function deleteRemote({ folders, shell, signal }: TarSync, changes: readonly TarChange[]) {
  const stdin = listOf(changes.map(({ name }) => name));
  const { code, stderr } = await shell.run(DELETE, [folders.remote], { signal, timeoutMs: DELETE_MS, stdin });
  if (code !== 0) throw copyProblem(stderr, shell.host, shell.host);
}

async function deleteLocal({ folders: { local }, signal }: TarSync, changes: readonly TarChange[]) {
  for (const { name } of changes) {
    signal.throwIfAborted();
    if (!(await isRealBelow(local, name))) continue;
    await rm(pathOf(local, name), { force: true });
    // Removes folders that are now empty; stops at the first folder that is not.
    for (let end = name.lastIndexOf('/'); end > 0; end = name.lastIndexOf('/', end - 1)) {
      const isRemoved = await rmdir(pathOf(local, name.slice(0, end))).then(
        () => true,
        () => false
      );
      if (!isRemoved) break;
    }
  }
}

interface RunningTar {
  readonly child: ChildProcess;
  ended(): Promise<{ readonly code: number | null; readonly words: string }>;
}

async function startTar(args: readonly string[], signal: AbortSignal): Promise<RunningTar> {
  signal.throwIfAborted();
  // Otherwise macOS adds its own files to the archive.
  const env = { ...process.env, COPYFILE_DISABLE: '1', LC_ALL: 'C' };
  const child = spawn('tar', args, { stdio: ['pipe', 'pipe', 'pipe'], env, signal, killSignal: 'SIGTERM' });
  let words = '';
  child.stderr.on('data', (chunk: Buffer) => {
    words = (words + chunk.toString('utf8')).slice(-ERROR_CHARACTERS);
  });
  child.stdin.on('error', () => undefined);
  const closed = once(child, 'close') as Promise<[number | null]>;
  closed.catch(() => undefined);
  await once(child, 'spawn').catch((cause: unknown) => {
    throw new RemoteProblem('sync_failed', 'There is no tar on this machine; install it, then sync again.', {
      cause
    });
  });
  return {
    child,
    ended: async () => {
      const [code] = await closed;
      signal.throwIfAborted();
      return { code, words };
    }
  };
}

/** @param writer the host that should write the file; null: this computer */
export function copyProblem(words: string, host: string, writer: string | null): RemoteProblem {
  const last = words.trim().split('\n').slice(-2).join(' ').slice(-400);
  return (
    explainHost(writer, words) ??
    new RemoteProblem('sync_failed', `Copying to or from ${host} failed: ${last || 'no reason given'}`)
  );
}
