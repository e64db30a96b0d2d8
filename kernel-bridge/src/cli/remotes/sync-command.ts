/**
 * `tpulab copy push` and `tpulab copy pull`: copies a folder to a machine or from it. Before a deletion, or before an
 * older file overwrites a newer one, the command shows the list and asks for confirmation.
 */
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import type { SyncDirection, SyncPlan, SyncRequest, SyncStatus } from '@tpulab/protocol';
import {
  agree,
  type Confirm,
  confirmOnTerminal,
  type ConfirmOptions,
  print,
  type Streams,
  YES
} from '../output.js';
import { GatewayRefusal, type StateOptions } from '../running-gateway.js';
import { RemoteCalls } from './remote-calls.js';

interface SyncOptions extends ConfirmOptions, StateOptions {
  readonly to?: string;
  readonly from?: string;
  readonly include?: string[];
  readonly exclude?: string[];
  readonly delete?: boolean;
  readonly dryRun?: boolean;
}

const POLL_MS = 300;
const THERE =
  'absolute, or below the home folder; on Colab, below /content (default: the last part of FOLDER)';

export function copyCommand(streams: Streams): Command {
  return new Command('copy')
    .description('copy a folder to a machine or from it')
    .addCommand(pushCommand(streams))
    .addCommand(pullCommand(streams));
}

export function pushCommand(streams: Streams, confirm: Confirm = confirmOnTerminal): Command {
  const command = new Command('push')
    .description('copy a folder from this computer to a machine')
    .option('--to <folder>', `folder on the machine: ${THERE}`);
  return syncCommand(command, 'to-remote', streams, confirm);
}

export function pullCommand(streams: Streams, confirm: Confirm = confirmOnTerminal): Command {
  const command = new Command('pull')
    .description('copy a folder from a machine to this computer')
    .option('--from <folder>', `folder on the machine: ${THERE}`);
  return syncCommand(command, 'from-remote', streams, confirm);
}

function syncCommand(
  command: Command,
  direction: SyncDirection,
  streams: Streams,
  confirm: Confirm
): Command {
  return command
    .argument('<name>', 'the machine, as "tpulab machine ls" shows it')
    .argument('<folder>', 'folder on this computer')
    .option('--include <pattern...>', 'rsync patterns to copy even if an --exclude matches')
    .option('--exclude <pattern...>', 'rsync patterns to exclude')
    .option('--delete', 'also delete files that the source does not have')
    .option('--dry-run', 'only show a preview')
    .option(...YES)
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', 'print JSON')
    .action(async (name: string, folder: string, options: SyncOptions) => {
      const calls = await RemoteCalls.find(options.stateDir);
      const request = requestOf(folder, direction, options);
      if (options.dryRun === true || options.yes !== true) {
        const plan = await calls.planSync(name, request);
        if (options.dryRun === true) {
          print(streams, options, plan, planText(plan));
          return;
        }
        const question = questionOf(plan, direction === 'to-remote' ? name : 'this computer');
        if (question !== null) await agree(streams, options, { plan: planText(plan), question }, confirm);
      }
      const status = await copyFolder(calls, name, request, text => {
        if (options.json !== true) streams.stderr.write(`${text}\n`);
      });
      const place = direction === 'to-remote' ? `${name}:${status.remoteFolder}` : status.localFolder;
      const text = `${filesText(status.files)}, ${status.bytes} bytes copied to ${place}.`;
      print(streams, options, status, [text, ...leftOutText(status)].join('\n'));
      if (status.leftOut.some(({ failed }) => failed === true)) process.exitCode = 1;
    });
}

function requestOf(folder: string, direction: SyncDirection, options: SyncOptions): SyncRequest {
  const remoteFolder = options.to ?? options.from;
  return {
    localFolder: path.resolve(folder),
    direction,
    ...(remoteFolder !== undefined && { remoteFolder }),
    ...(options.include && { include: options.include }),
    ...(options.exclude && { exclude: options.exclude }),
    ...(options.delete === true && { delete: true })
  };
}

/** @param note receives the progress @throws GatewayRefusal */
export async function copyFolder(
  calls: RemoteCalls,
  name: string,
  request: SyncRequest,
  note: (text: string) => void
): Promise<SyncStatus> {
  await calls.startSync(name, request);
  for (let noted = ''; ;) {
    const status = await calls.syncStatus(name);
    if (status.state === 'failed') {
      const { code = 'sync_failed', message = 'The folder could not be copied.' } = status.error ?? {};
      throw new GatewayRefusal(code, message);
    }
    if (status.state !== 'running') return status;
    const text = `${status.files} of ${status.totalFiles} files`;
    if (text !== noted) note(text);
    noted = text;
    await wait(POLL_MS);
  }
}

/** null: the sync loses no data. */
function questionOf({ newer, deletions }: SyncPlan, where: string): string | null {
  const losses = [
    ...(newer > 0 ? [`overwrite ${filesText(newer)} newer than the copy`] : []),
    ...(deletions > 0 ? [`delete ${filesText(deletions)}`] : [])
  ].join(' and ');
  return losses === '' ? null : `On ${where}: ${losses}?`;
}

function leftOutText({ leftOut, leftOutCount }: Pick<SyncPlan, 'leftOut' | 'leftOutCount'>): string[] {
  if (leftOutCount === 0) return [];
  const rest = leftOutCount - leftOut.length;
  return [
    `Not copied: ${leftOutCount}`,
    ...leftOut.map(({ path: file, reason }) => `  ${file} (${reason})`),
    ...(rest > 0 ? [`  … and ${rest} more`] : [])
  ];
}

export function filesText(count: number): string {
  return count === 1 ? '1 file' : `${count} files`;
}

function planText(plan: SyncPlan): string {
  const { changes, files, deletions, bytes, localFolder, remoteFolder } = plan;
  const lines = changes.map(({ action, path: file, bytes: size, newer }) =>
    action === 'delete'
      ? `delete   ${file}`
      : `${action.padEnd(8)} ${file}  (${size} bytes${newer === true ? ', overwrites a newer file' : ''})`
  );
  const rest = files + deletions - changes.length;
  if (rest > 0) lines.push(`… and ${rest} more`);
  lines.push(
    ...leftOutText(plan),
    `${filesText(files)}, ${bytes} bytes, ${deletions} to delete: ${localFolder} and ${remoteFolder}`
  );
  return lines.join('\n');
}
