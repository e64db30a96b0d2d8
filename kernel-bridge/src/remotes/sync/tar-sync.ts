/**
 * Copies a folder where one of the two machines has no rsync that can be used: what differs in size or time goes as one archive over the
 * connection that stands. Regular files only, each below the folder: links are neither copied nor written through.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir, mkdtemp, rename, rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { SyncChange, SyncRequest } from '@tpulab/protocol';
import { ensureFolder } from '../../platform/ensure-folder.js';
import { RemoteProblem } from '../remote-error.js';
import type { SshShell } from '../ssh/ssh-shell.js';
import { type Listing, listHere, listThere, patternsOf } from './listing.js';
import { ALWAYS_LEFT_OUT, type SyncFolders } from './rsync-arguments.js';

export interface TarSync {
  readonly request: SyncRequest;
  readonly folders: SyncFolders;
  readonly shell: SshShell;
  readonly signal: AbortSignal;
}

const ERROR_CHARACTERS = 8_192;

/** What is to be done, in the order of the names. @throws RemoteProblem where a link is in the way */
export async function tarChanges({ request, folders, shell, signal }: TarSync): Promise<SyncChange[]> {
  const leavesOut = patternsOf(request.include ?? [], [...ALWAYS_LEFT_OUT, ...(request.exclude ?? [])]);
  const [here, there] = await Promise.all([
    listHere(folders.local, leavesOut, signal),
    listThere(shell, folders.remote, leavesOut, signal)
  ]);
  const isSent = request.direction === 'to-remote';
  const [from, to] = isSent ? [here, there] : [there, here];
  const copied = [...from].flatMap(([name, { kind, bytes, modifiedAt }]): SyncChange[] => {
    const other = to.get(name);
    if (kind === 'link' || (other?.bytes === bytes && other.modifiedAt === modifiedAt)) return [];
    refuseLinks(name, to, isSent ? shell.host : 'this machine');
    const isNewer = other !== undefined && other.modifiedAt > modifiedAt;
    return [{ path: name, action: isSent ? 'send' : 'receive', bytes, ...(isNewer && { newer: true }) }];
  });
  const deleted = [...to].flatMap(([name, { kind }]): SyncChange[] =>
    request.delete !== true || kind === 'link' || from.has(name)
      ? []
      : [{ path: name, action: 'delete', bytes: 0 }]
  );
  return [...copied, ...deleted].sort((a, b) => (a.path < b.path ? -1 : 1));
}

export async function copyByTar(
  sync: TarSync,
  changes: readonly SyncChange[],
  onChange: (change: SyncChange) => void
): Promise<void> {
  const copied = new Map(changes.filter(({ action }) => action !== 'delete').map(one => [one.path, one]));
  const told = (name: string): void => {
    const change = copied.get(name);
    if (change) onChange(change);
  };
  const isSent = sync.request.direction === 'to-remote';
  if (copied.size > 0) await (isSent ? send : receive)(sync, [...copied.keys()], told);
  const deleted = changes.filter(({ action }) => action === 'delete');
  if (deleted.length > 0) await (isSent ? deleteThere : deleteHere)(sync, deleted);
  for (const change of deleted) onChange(change);
}

/** A link in the place of a folder would take the file to where it points. */
function refuseLinks(name: string, to: Listing, where: string): void {
  const parts = name.split('/');
  const link = parts
    .map((_, at) => parts.slice(0, at + 1).join('/'))
    .find(one => to.get(one)?.kind === 'link');
  if (link === undefined) return;
  throw new RemoteProblem(
    'sync_bad_folder',
    `${link} on ${where} is a link, and sync does not write through links; remove it, or exclude it with a pattern.`
  );
}

const UNPACK = `mkdir -p -- "$1" && cd -- "$1" && exec tar -x -v -p -o -f -`;

async function send({ folders, shell, signal }: TarSync, names: string[], told: (name: string) => void) {
  const tar = await startTar(['-c', '-f', '-', '-C', folders.local, '--null', '-T', '-'], signal);
  tar.child.stdin?.end(names.map(name => `./${name}\0`).join(''));
  const result = await shell.stream(UNPACK, [folders.remote], {
    signal,
    stdin: tar.child.stdout ?? undefined,
    onLine: line => told(nameOf(line))
  });
  await tar.ended(shell.host, [0, 1]);
  if (result.code !== 0) throw tarProblem(result.stderr, shell.host);
}

/** GNU tar reads backslashes and dashes in a list of names as something else. */
const PACK = `cd -- "$1" || exit 1
if tar --version 2>/dev/null | grep -q GNU; then set -- --no-unquote; else set --; fi
exec tar "$@" -c -f - -T -`;

/**
 * Into a folder of our own beside the target, and from there file by file: what the other side packs besides the files that were asked
 * for stays there and is removed, and so does all that is no regular file.
 */
async function receive({ folders, shell, signal }: TarSync, names: string[], told: (name: string) => void) {
  const { local, remote } = folders;
  await mkdir(local, { recursive: true });
  const staging = await mkdtemp(path.join(local, '.tpulab-sync-'));
  try {
    const tar = await startTar(['-x', '-v', '-p', '-o', '-f', '-', '-C', staging], signal);
    for (const stream of [tar.child.stdout, tar.child.stderr]) {
      if (stream) createInterface({ input: stream }).on('line', line => told(nameOf(line)));
    }
    const result = await shell.stream(PACK, [remote], {
      signal,
      stdin: names.map(name => `./${name}\n`).join(''),
      ...(tar.child.stdin ? { into: tar.child.stdin } : {})
    });
    await tar.ended(shell.host, [0]);
    if (result.code > 1) throw tarProblem(result.stderr, shell.host);
    for (const name of names) await place(staging, local, name);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

async function place(staging: string, local: string, name: string): Promise<void> {
  const made = path.join(staging, name);
  // It may have vanished there since it was listed.
  if (!(await isRealBelow(staging, name)) || !(await lstat(made).catch(() => null))?.isFile()) return;
  let folder = local;
  for (const part of name.split('/').slice(0, -1)) {
    folder = path.join(folder, part);
    await ensureFolder(folder);
    if (!(await lstat(folder)).isDirectory()) {
      throw new RemoteProblem('sync_bad_folder', `${folder} is not a folder; move it, then sync again.`);
    }
  }
  await rename(made, path.join(local, name));
}

/** Whether all folders on the way are folders, and no links. */
async function isRealBelow(root: string, name: string): Promise<boolean> {
  let folder = root;
  for (const part of name.split('/').slice(0, -1)) {
    folder = path.join(folder, part);
    if (!(await lstat(folder).catch(() => null))?.isDirectory()) return false;
  }
  return true;
}

const DELETE = `cd -- "$1" || exit 1
while IFS= read -r name; do
  rm -f -- "$name" || exit 1
  folder=$(dirname -- "$name")
  while [ "$folder" != . ] && rmdir -- "$folder" 2>/dev/null; do folder=$(dirname -- "$folder"); done
done
exit 0`;
const DELETE_MS = 5 * 60_000;

async function deleteThere({ folders, shell, signal }: TarSync, changes: readonly SyncChange[]) {
  const stdin = changes.map(({ path: name }) => `./${name}\n`).join('');
  const { code, stderr } = await shell.run(DELETE, [folders.remote], { signal, timeoutMs: DELETE_MS, stdin });
  if (code !== 0) throw tarProblem(stderr, shell.host);
}

async function deleteHere({ folders: { local }, signal }: TarSync, changes: readonly SyncChange[]) {
  for (const { path: name } of changes) {
    signal.throwIfAborted();
    if (!(await isRealBelow(local, name))) continue;
    await rm(path.join(local, name), { force: true });
    // Folders that are empty now; the first one that is not ends it.
    for (let folder = path.dirname(name); folder !== '.'; folder = path.dirname(folder)) {
      const isGone = await rmdir(path.join(local, folder)).then(
        () => true,
        () => false
      );
      if (!isGone) break;
    }
  }
}

/** `./a`, or `x ./a` as the tar of macOS has it. */
function nameOf(line: string): string {
  return line.replace(/^x /, '').replace(/^\.\//, '');
}

interface RunningTar {
  readonly child: ChildProcess;
  /** @throws RemoteProblem unless it ended with one of these codes; 1 is for files that changed while they were read. */
  ended(host: string, codes: readonly number[]): Promise<void>;
}

async function startTar(args: readonly string[], signal: AbortSignal): Promise<RunningTar> {
  signal.throwIfAborted();
  // macOS would add files of its own to the archive.
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
    ended: async (host, codes) => {
      const [code] = await closed;
      signal.throwIfAborted();
      if (code === null || !codes.includes(code)) throw tarProblem(words, host);
    }
  };
}

function tarProblem(words: string, host: string): RemoteProblem {
  const last = words.trim().split('\n').slice(-2).join(' ').slice(-400);
  if (/No space left|Disk quota/i.test(words)) {
    return new RemoteProblem(
      'remote_disk_full',
      `A disk is full (${last}); free some space, then sync again.`
    );
  }
  return new RemoteProblem('sync_failed', `Copying to or from ${host} failed: ${last || 'no reason given'}`);
}
