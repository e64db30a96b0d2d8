/** Remotes as lines for people. */
import {
  percentText,
  type Remote,
  type RemoteCandidates,
  type RemoteStage,
  transferText
} from '@tpulab/protocol';
import { sourceText } from './connect-target.js';

export function remotesText(remotes: readonly Remote[]): string {
  if (remotes.length === 0) return 'No remotes. Add one with "tpulab connect HOST".';
  const rows = remotes.map(remote => [
    remote.name,
    stateText(remote),
    chipText(remote),
    sourceText(remote.source)
  ]);
  return table([['NAME', 'STATE', 'TPU', 'SOURCE'], ...rows]);
}

export function statusText(remote: Remote): string {
  const { name, environment, error, notice, prompt, checks, mirror, hosts } = remote;
  const lines = [
    `${name}: ${stateText(remote)}`,
    `  source       ${sourceText(remote.source)}`,
    ...(hosts.length === 0 ? [] : [`  hosts        ${hosts.join(', ')}`]),
    `  environment  ${environment}`,
    `  TPU          ${chipText(remote)}`,
    `  mirror       ${mirror.kernels} kernels, ${mirror.bytes} bytes, ${mirror.behindBytes} still there`,
    ...((mirror.putAside ?? 0) > 0
      ? [`  archived     ${mirror.putAside} journals that the machine no longer has (journal.other)`]
      : []),
    ...(notice ? [`  ${notice.kind}: ${notice.message}`] : []),
    ...remote.stages.map(stage => `  ${stageText(stage)}`),
    ...checks
      .filter(({ name: about, state }) => state !== 'ok' || about === 'compute-units')
      .map(check => `  ${check.state}: ${check.message}${check.remedy === null ? '' : ` ${check.remedy}`}`),
    ...(prompt ? [`  asks: ${prompt.text}`, `  answer with "tpulab connect ${name}"`] : []),
    ...(error ? [`  ${error.message}`, ...(error.command === null ? [] : [`  $ ${error.command}`])] : [])
  ];
  return lines.join('\n');
}

export function candidatesText({ sshHosts, gcloud }: RemoteCandidates): string {
  const machines = gcloud.machines.map(({ source, acceleratorType, state }) => [
    sourceText(source),
    acceleratorType ?? '',
    state
  ]);
  return [
    'Hosts of your ssh configuration:',
    ...(sshHosts.length === 0 ? ['  none'] : sshHosts.map(host => `  ${host}`)),
    `Machines of ${gcloud.project === null ? 'your project' : `project ${gcloud.project}`}:`,
    ...(machines.length === 0
      ? [`  ${gcloud.message ?? 'none'}`]
      : table(machines)
          .split('\n')
          .map(line => `  ${line}`)),
    ...(gcloud.remedy === null ? [] : [`  $ ${gcloud.remedy}`])
  ].join('\n');
}

export function stageText({ title, state, detail, fraction, transfer }: RemoteStage): string {
  const sign = { running: '…', done: '✓', skipped: '–', failed: '✗' }[state];
  const percent = state === 'running' && fraction !== null ? ` ${percentText(fraction * 100)}` : '';
  const parts = [detail, state === 'running' && transfer ? transferText(transfer) : null].filter(
    part => part !== null
  );
  return `${sign} ${title}${percent}${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`;
}

function stateText({ state, roundTripMs, nextAttemptAt, queue }: Remote): string {
  if (state === 'connected' && roundTripMs !== null) return `connected, ${roundTripMs} ms`;
  if (state === 'reconnecting' && nextAttemptAt !== null) {
    return `reconnecting in ${Math.max(0, Math.ceil((nextAttemptAt - Date.now()) / 1000))} s`;
  }
  if (state === 'queued' && queue) {
    const since = queue.since === null ? '' : ` since ${new Date(queue.since).toLocaleString()}`;
    return `waiting for Google Cloud (${queue.state}${since})`;
  }
  return state;
}

function chipText({ accelerator }: Remote): string {
  if (accelerator === null) return '-';
  if (accelerator.chips === 0) return 'none';
  return `${accelerator.type ?? accelerator.chip ?? 'unknown'} (${accelerator.chips} chips)`;
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0)));
  return rows
    .map(row =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd()
    )
    .join('\n');
}
