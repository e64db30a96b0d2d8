/** The arguments of rsync for one direction. Only options that the rsync of every macOS and Linux knows. */
import type { SyncRequest } from '@tpulab/protocol';
import { viaMaster } from '../ssh/arguments.js';

export type OneWay = 'to-remote' | 'from-remote';

export interface RsyncFolders {
  /** Absolute. */
  readonly local: string;
  /** Absolute, or relative to the home folder of the remote user. */
  readonly remote: string;
}

/** What nobody wants on the other side. */
export const ALWAYS_LEFT_OUT = ['.git/', '__pycache__/', '.ipynb_checkpoints/', 'node_modules/', '.venv/'];

/** One line a file: what is done with it, its bytes, its path. */
const LINE = '%i %l %n';

export function rsyncArguments(
  way: OneWay,
  { local, remote }: RsyncFolders,
  request: Pick<SyncRequest, 'direction' | 'include' | 'exclude' | 'delete'>,
  ssh: { readonly program: string; readonly controlPath: string },
  dryRun: boolean
): string[] {
  const there = `remote:${remote.replace(/\/+$/, '')}/`;
  const here = `${local.replace(/\/+$/, '')}/`;
  return [
    '--archive',
    '--no-owner',
    '--no-group',
    '--compress',
    // Paths with blanks arrive as they are, and are never read by a shell there.
    '--protect-args',
    '--partial',
    '--timeout=60',
    `--out-format=${LINE}`,
    ...(dryRun ? ['--dry-run'] : []),
    ...(request.direction === 'both' ? ['--update'] : []),
    ...(request.delete === true && request.direction !== 'both' ? ['--delete'] : []),
    ...(request.include ?? []).map(pattern => `--include=${pattern}`),
    ...[...ALWAYS_LEFT_OUT, ...(request.exclude ?? [])].map(pattern => `--exclude=${pattern}`),
    '-e',
    remoteShell(ssh),
    '--',
    ...(way === 'to-remote' ? [here, there] : [there, here])
  ];
}

/** rsync splits this at blanks and knows quotes; the host that it appends is a placeholder of `viaMaster`. */
function remoteShell({ program, controlPath }: { program: string; controlPath: string }): string {
  const words = viaMaster(controlPath, []);
  // Without `-- remote`, which rsync adds itself.
  return [program, ...words.slice(0, words.indexOf('--'))].map(quoted).join(' ');
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "''")}'`;
}
