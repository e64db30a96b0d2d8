/** Makes a folder here and one on a remote the same, with rsync over the connection that stands. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { SyncChange, SyncPlan, SyncRequest } from '@tpulab/protocol';
import type { RemoteShell } from '../contracts.js';
import { RemoteProblem } from '../remote-error.js';
import { SshShell } from '../ssh/ssh-shell.js';
import { changeOf } from './rsync-output.js';
import { type OneWay, rsyncArguments, type RsyncFolders } from './rsync-arguments.js';
import { syncProblem } from './sync-error.js';

const LISTED = 1_000;
const ERROR_CHARACTERS = 8_192;
/** Making a folder, and asking whether rsync is there. */
const SMALL_STEP_MS = 30_000;

export interface SyncRun {
  readonly request: SyncRequest;
  readonly folders: RsyncFolders;
  readonly shell: RemoteShell;
  readonly signal: AbortSignal;
  readonly onChange: (change: SyncChange) => void;
}

/** @throws RemoteProblem when the folder here cannot be used */
export async function foldersOf(request: SyncRequest): Promise<RsyncFolders> {
  const given = request.localFolder;
  const local = given === '~' || given.startsWith('~/') ? path.join(homedir(), given.slice(1)) : given;
  if (!path.isAbsolute(local) || local.includes('\0')) {
    throw new RemoteProblem('sync_bad_folder', `"${given}" is not an absolute path; name the whole path.`);
  }
  const found = await stat(local).catch(() => null);
  if (found === null && request.direction !== 'from-remote') {
    throw new RemoteProblem('sync_bad_folder', `There is no folder ${local}; choose one that exists.`);
  }
  if (found !== null && !found.isDirectory()) {
    throw new RemoteProblem('sync_bad_folder', `${local} is not a folder.`);
  }
  if ([homedir(), path.parse(local).root].includes(path.resolve(local))) {
    throw new RemoteProblem('sync_bad_folder', `${local} is too much to sync; choose a folder in it.`);
  }
  const remote = (request.remoteFolder ?? path.basename(local)).replace(/^~\/+/, '');
  if (
    remote === '' ||
    remote === '~' ||
    remote.split('/').includes('..') ||
    remote.startsWith('-') ||
    remote.includes('\0')
  ) {
    throw new RemoteProblem(
      'sync_bad_folder',
      `"${remote}" cannot be the folder on the remote; name one below its home folder, or an absolute path.`
    );
  }
  return { local: path.resolve(local), remote };
}

/** What would happen. */
export async function planSync(run: Omit<SyncRun, 'onChange'>): Promise<SyncPlan> {
  const changes: SyncChange[] = [];
  let files = 0;
  let deletions = 0;
  let bytes = 0;
  await eachWay({
    ...run,
    dryRun: true,
    onChange: change => {
      if (changes.length < LISTED) changes.push(change);
      if (change.action === 'delete') deletions += 1;
      else {
        files += 1;
        bytes += change.bytes;
      }
    }
  });
  return {
    localFolder: run.folders.local,
    remoteFolder: run.folders.remote,
    changes,
    files,
    deletions,
    bytes
  };
}

export async function runSync(run: SyncRun): Promise<void> {
  if (run.request.direction !== 'to-remote') await mkdir(run.folders.local, { recursive: true });
  await eachWay({ ...run, dryRun: false });
}

async function eachWay(run: SyncRun & { readonly dryRun: boolean }): Promise<void> {
  await prepare(run);
  const { direction } = run.request;
  const ways: OneWay[] = direction === 'both' ? ['to-remote', 'from-remote'] : [direction];
  for (const way of ways) await rsync(way, run);
}

/** The folder there, which rsync makes only if the one above it exists. */
async function prepare({
  shell,
  folders,
  request,
  signal,
  dryRun
}: SyncRun & { readonly dryRun: boolean }): Promise<void> {
  const script = `command -v rsync >/dev/null || exit 127
[ "$2" = yes ] || exit 0
mkdir -p -- "$1"`;
  const isMade = request.direction !== 'from-remote';
  const { code, stderr } = await shell.run(script, [folders.remote, isMade && !dryRun ? 'yes' : 'no'], {
    signal,
    timeoutMs: SMALL_STEP_MS
  });
  if (code !== 0) throw syncProblem(code, stderr, shell.host);
}

async function rsync(way: OneWay, run: SyncRun & { readonly dryRun: boolean }): Promise<void> {
  const { shell, folders, request, signal, onChange, dryRun } = run;
  if (!(shell instanceof SshShell)) {
    throw new RemoteProblem('sync_failed', 'Folders can be synced over ssh only.');
  }
  signal.throwIfAborted();
  const args = rsyncArguments(way, folders, request, shell.transport, dryRun);
  // No shell, and the words of rsync in English, so that they can be told apart.
  const child = spawn('rsync', args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, LC_ALL: 'C' }
  });
  const end = (): void => void child.kill('SIGTERM');
  signal.addEventListener('abort', end, { once: true });
  let words = '';
  child.stderr.on('data', (chunk: Buffer) => {
    words = (words + chunk.toString('utf8')).slice(-ERROR_CHARACTERS);
  });
  createInterface({ input: child.stdout }).on('line', line => {
    const change = changeOf(line, way);
    if (change) onChange(change);
  });
  try {
    const [code] = (await once(child, 'close')) as [number | null];
    signal.throwIfAborted();
    // A folder that is not there yet has nothing that a dry run could compare.
    const isNew = dryRun && way === 'from-remote' && /No such file or directory/.test(words);
    // 24: files that vanished while they were looked at, which a working folder has all the time.
    if (code !== 0 && code !== 24 && !isNew) throw syncProblem(code, words, shell.host);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') {
      throw new RemoteProblem(
        'sync_no_rsync',
        'There is no rsync on this machine; install it (Debian and Ubuntu: sudo apt-get install rsync), then sync again.'
      );
    }
    throw error;
  } finally {
    signal.removeEventListener('abort', end);
  }
}
