/** `tpulab remotes sync`: a folder here and one on a remote are made the same. */
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { type Command, Option } from 'commander';
import type { SyncDirection, SyncPlan, SyncRequest, SyncStatus } from '@tpulab/protocol';
import { type OutputOptions, say, type Streams } from '../output.js';
import { GatewayRefusal, RemoteCalls } from './remote-calls.js';

interface SyncOptions extends OutputOptions {
  readonly stateDir?: string;
  readonly to?: string;
  readonly direction: SyncDirection;
  readonly include?: string[];
  readonly exclude?: string[];
  readonly delete?: boolean;
  readonly dryRun?: boolean;
}

const LOOK_MS = 300;

export function addSyncCommand(remotes: Command, streams: Streams): void {
  remotes
    .command('sync')
    .description('copy the files of a folder to a remote, from it, or what is newer both ways')
    .argument('<name>', 'the remote')
    .argument('<folder>', 'folder on this machine')
    .option('--to <folder>', 'folder there: absolute, or below the home folder (default: the same last part)')
    .addOption(
      new Option('--direction <way>', 'which side is followed')
        .choices(['to-remote', 'from-remote', 'both'])
        .default('to-remote')
    )
    .option('--include <pattern...>', 'rsync patterns that are copied though an --exclude has them')
    .option('--exclude <pattern...>', 'rsync patterns that are left out')
    .option('--delete', 'also remove what the followed side does not have')
    .option('--dry-run', 'only say what would happen')
    .option('--state-dir <folder>', 'state folder of the gateway (default: $XDG_STATE_HOME/tpulab)')
    .option('--json', 'print JSON')
    .action(async (name: string, folder: string, options: SyncOptions) => {
      const calls = await RemoteCalls.find(options.stateDir);
      const request = requestOf(folder, options);
      if (options.dryRun === true) {
        const plan = await calls.planSync(name, request);
        say(streams, options, plan, planText(plan));
        return;
      }
      await calls.startSync(name, request);
      const status = await ended(calls, name, streams, options);
      if (status.state === 'failed') {
        throw new GatewayRefusal(
          status.error?.code ?? 'sync_failed',
          status.error?.message ?? 'The folder could not be synced.'
        );
      }
      say(streams, options, status, `${status.files} files, ${status.bytes} bytes: ${name} has them.`);
    });
}

function requestOf(folder: string, options: SyncOptions): SyncRequest {
  return {
    localFolder: path.resolve(folder),
    direction: options.direction,
    ...(options.to !== undefined && { remoteFolder: options.to }),
    ...(options.include && { include: options.include }),
    ...(options.exclude && { exclude: options.exclude }),
    ...(options.delete === true && { delete: true })
  };
}

async function ended(
  calls: RemoteCalls,
  name: string,
  streams: Streams,
  options: OutputOptions
): Promise<SyncStatus> {
  for (let told = ''; ;) {
    const status = await calls.syncStatus(name);
    if (status.state !== 'running') return status;
    const text = `${status.files} of ${status.totalFiles} files`;
    if (options.json !== true && text !== told) streams.stderr.write(`${text}\n`);
    told = text;
    await wait(LOOK_MS);
  }
}

function planText({ changes, files, deletions, bytes, localFolder, remoteFolder }: SyncPlan): string {
  const lines = changes.map(({ action, path: file, bytes: size }) =>
    action === 'delete' ? `delete   ${file}` : `${action.padEnd(8)} ${file}  (${size} bytes)`
  );
  const rest = files + deletions - changes.length;
  if (rest > 0) lines.push(`… and ${rest} more`);
  lines.push(`${files} files, ${bytes} bytes, ${deletions} to delete: ${localFolder} and ${remoteFolder}`);
  return lines.join('\n');
}
