/**
 * Copies a folder to a remote, or from it, over the open connection: with rsync if both machines have it, otherwise with
 * tar.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { makeFolder } from '@tpulab/platform/missing-files.js';
import { homeFolder } from '@tpulab/platform/user-folders.js';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { SyncChange, SyncLeftOut, SyncPlan, SyncRequest } from '@tpulab/protocol';
import { runProgram } from '../environments/run-program.js';
import type { RemoteShell } from '../machine.js';
import { RemoteProblem } from '../remote-error.js';
import { sshEnvironment } from '../ssh/ssh-process.js';
import { SshShell, UNREAD } from '../ssh/ssh-shell.js';
import {
  changeOf,
  failuresIn,
  isUsableRsync,
  skippedFileIn,
  rsyncArguments,
  type SyncFolders
} from './rsync-arguments.js';
import { explainHost } from '../ssh/explain.js';
import { copyByTar, copyProblem, planTar } from './tar-sync.js';

const MAX_LISTED = 1_000;
/** Maximum number of skipped files that are named. */
export const NAMED = 100;
const ERROR_CHARACTERS = 8_192;
/** Time limit for creating a folder, and for checking for rsync. */
const SMALL_STEP_MS = 30_000;

interface SyncRun {
  readonly request: SyncRequest;
  readonly folders: SyncFolders;
  readonly shell: RemoteShell;
  readonly signal: AbortSignal;
  readonly onChange: (change: SyncChange) => void;
  readonly onLeftOut: (one: SyncLeftOut) => void;
}

type Plan = Omit<SyncRun, 'onChange' | 'onLeftOut'>;

/** @throws RemoteProblem if one of the folders is unusable */
export async function foldersOf(
  request: SyncRequest,
  shell: RemoteShell,
  signal: AbortSignal
): Promise<SyncFolders> {
  const local = await localFolderOf(request);
  const named = request.remoteFolder ?? path.basename(local);
  if (
    ['', '~'].includes(named.replace(/\/+$/, '')) ||
    named.split('/').includes('..') ||
    named.startsWith('-') ||
    named.includes('\0')
  ) {
    throw badFolder(
      `"${named}" cannot be the folder on the machine; use one below its home folder, or an absolute path.`
    );
  }
  return { local, remote: await remoteFolderOf(named, shell, signal) };
}

async function localFolderOf({ localFolder: given, direction }: SyncRequest): Promise<string> {
  const local = given === '~' || given.startsWith('~/') ? path.join(homeFolder(), given.slice(1)) : given;
  if (!path.isAbsolute(local) || local.includes('\0')) throw badFolder(`"${given}" is not an absolute path.`);
  const found = await stat(local).catch(() => null);
  if (found === null && direction !== 'from-remote') {
    throw badFolder(`There is no folder ${local}; choose one that exists.`);
  }
  if (found !== null && !found.isDirectory()) throw badFolder(`${local} is not a folder.`);
  if ([homeFolder(), path.parse(local).root].includes(path.resolve(local))) {
    throw badFolder(`${local} is too large to sync; choose a folder inside it.`);
  }
  return path.resolve(local);
}

/** Resolved relative to the folder in which kernels start there: the home folder, or the runtime's work folder. */
async function remoteFolderOf(named: string, shell: RemoteShell, signal: AbortSignal): Promise<string> {
  if (named.startsWith('/')) return named;
  const script = `printf '%s\\n' "\${TPULAB_ROOT_DIR:-$HOME}" "$HOME"`;
  const { stdout } = await shell.run(script, [], { signal, timeoutMs: SMALL_STEP_MS });
  const [start, home] = stdout.split('\n');
  const above = named.startsWith('~/') ? home : start;
  if (above === undefined || !/^\/[^\x00-\x1f]*$/.test(above)) {
    throw badFolder(`${shell.host} reports no home folder; give the absolute path of the folder there.`);
  }
  return path.posix.join(above, named.replace(/^~\/+/, ''));
}

function badFolder(message: string): RemoteProblem {
  return new RemoteProblem('sync_bad_folder', message);
}

/** A preview. @param ages whether to find files that are newer than their replacement, for which rsync runs a second time */
export async function planSync(run: Plan, ages: 'compared' | 'ignored' = 'compared'): Promise<SyncPlan> {
  const transport = await transportOf(run);
  const { changes: all, leftOut } =
    transport === 'rsync'
      ? await rsyncChanges(run, ages)
      : await planTar({ ...run, shell: overSsh(run.shell) });
  const copied = all.filter(({ action }) => action !== 'delete');
  return {
    localFolder: run.folders.local,
    remoteFolder: run.folders.remote,
    transport,
    changes: all.slice(0, MAX_LISTED).map(({ path: file, action, bytes, newer }) => ({
      path: file,
      action,
      bytes,
      ...(newer && { newer })
    })),
    leftOut: leftOut.slice(0, NAMED),
    leftOutCount: leftOut.length,
    files: copied.length,
    newer: copied.filter(({ newer }) => newer === true).length,
    deletions: all.length - copied.length,
    bytes: copied.reduce((sum, { bytes }) => sum + bytes, 0)
  };
}

export async function runSync(run: SyncRun): Promise<void> {
  const { folders, request, shell, signal } = run;
  if (request.direction === 'from-remote') await makeFolder(folders.local);
  if ((await transportOf(run)) === 'tar') {
    const sync = { ...run, shell: overSsh(shell) };
    const plan = await planTar(sync);
    for (const one of plan.leftOut) run.onLeftOut(one);
    await copyByTar(sync, plan, run);
    return;
  }
  if (request.direction === 'to-remote') {
    // rsync creates a folder only if its parent exists.
    const made = await shell.run('mkdir -p -- "$1"', [folders.remote], { signal, timeoutMs: SMALL_STEP_MS });
    if (made.code !== 0) throw copyProblem(made.stderr, shell.host, shell.host);
  }
  await rsync({ ...run, dryRun: false });
}

async function transportOf({ shell, signal }: Pick<SyncRun, 'shell' | 'signal'>): Promise<'rsync' | 'tar'> {
  const script = `echo "unread=${UNREAD}"; rsync --version 2>/dev/null || true`;
  const [here, there] = await Promise.all([
    requireLocalRsync(signal),
    shell.run(script, [], { signal, timeoutMs: SMALL_STEP_MS, stdin: '\n' }).then(({ stdout }) => stdout)
  ]);
  // rsync parses the first bytes from the other side as protocol, whoever prints them, a start-up file may consume rsync's
  // bytes, and rsync waits for a program that such a file leaves running.
  const { noise, isHeldOpen } = overSsh(shell);
  const isUndisturbed = noise === null && !isHeldOpen && there.includes('unread=1');
  return isUndisturbed && isUsableRsync(here) && isUsableRsync(there) ? 'rsync' : 'tar';
}

async function requireLocalRsync(signal: AbortSignal): Promise<string> {
  const { stdout } = await runProgram({
    command: 'rsync',
    args: ['--version'],
    env: process.env,
    signal,
    timeoutMs: SMALL_STEP_MS
  }).catch(() => ({ stdout: [] }));
  return stdout.join('\n');
}

function overSsh(shell: RemoteShell): SshShell {
  if (shell instanceof SshShell) return shell;
  throw new RemoteProblem('sync_failed', 'Folders can be synced over ssh only.');
}

/** rsync prints only the files to change: a file that `--update` leaves alone is newer on the other side. */
async function rsyncChanges(
  run: Plan,
  ages: 'compared' | 'ignored'
): Promise<{ readonly changes: SyncChange[]; readonly leftOut: SyncLeftOut[] }> {
  const all: SyncChange[] = [];
  const leftOut: SyncLeftOut[] = [];
  const onLeftOut = (one: SyncLeftOut): void => void leftOut.push(one);
  await rsync({ ...run, dryRun: true, onChange: change => all.push(change), onLeftOut });
  if (ages === 'ignored' || all.every(({ action }) => action === 'delete')) return { changes: all, leftOut };
  const older = new Set<string>();
  await rsync({
    ...run,
    dryRun: true,
    keepsNewer: true,
    onChange: ({ path: file }) => older.add(file),
    onLeftOut: () => undefined
  });
  const changes = all.map(change =>
    change.action === 'delete' || older.has(change.path) ? change : { ...change, newer: true as const }
  );
  return { changes, leftOut };
}

interface RsyncRun extends SyncRun {
  readonly dryRun: boolean;
  readonly keepsNewer?: boolean;
}

async function rsync(run: RsyncRun): Promise<void> {
  const { shell, folders, request, signal, onChange, onLeftOut, dryRun, keepsNewer } = run;
  const way = request.direction;
  signal.throwIfAborted();
  const args = rsyncArguments(way, folders, request, overSsh(shell).transport, dryRun, keepsNewer);
  // Without a shell, and with English messages of rsync, so that they can be parsed.
  const child = spawn('rsync', args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...sshEnvironment(), LC_ALL: 'C' }
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
    const leftOut = change ? null : skippedFileIn(line);
    if (leftOut) onLeftOut(leftOut);
  });
  try {
    const [code] = (await once(child, 'close')) as [number | null];
    signal.throwIfAborted();
    // A dry run cannot compare with a folder that does not exist yet.
    const isNew = dryRun && way === 'from-remote' && /No such file or directory/.test(words);
    // 24: files vanished during the scan, which is normal in a working folder.
    const failures = code === 23 ? failuresIn(words, folders) : [];
    for (const one of failures) onLeftOut(one);
    if (code !== 0 && code !== 24 && !isNew && failures.length === 0)
      throw rsyncProblem(code, words, shell.host, way === 'to-remote' ? shell.host : null);
  } finally {
    signal.removeEventListener('abort', end);
  }
}

/** The message of rsync or of the connection, with the remedy. */
function rsyncProblem(
  code: number | null,
  words: string,
  host: string,
  writer: string | null
): RemoteProblem {
  const last = words.trim().split('\n').slice(-2).join(' ').slice(-400);
  const cause = explainHost(writer, words);
  if (cause !== null) return cause;
  if (code === 12 || code === 30 || code === 255) {
    return new RemoteProblem(
      'remote_lost',
      `The connection to ${host} ended while files were copied (${last}); sync again; files already copied are kept.`
    );
  }
  return copyProblem(last && `rsync ended with ${code ?? 'a signal'}: ${last}`, host, writer);
}
