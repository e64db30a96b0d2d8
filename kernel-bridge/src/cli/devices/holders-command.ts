/** `tpulab ps`: lists the processes that hold the chips of the machine, and frees the chips. */
import { type Holder, type HoldersPage, type LibtpuLock, secondsText } from '@tpulab/protocol';
import { Command, InvalidArgumentError } from 'commander';
import { chosenGateway, type StateOptions } from '../running-gateway.js';
import { print, type Streams } from '../output.js';

interface HoldersOptions extends StateOptions {
  readonly end?: number;
  readonly removeLock?: true;
  readonly machine?: string;
}

export function holdersCommand(streams: Streams): Command {
  return new Command('ps')
    .description("list the processes that use this machine's chips: user, kernel, notebook, idle time")
    .option(
      '--end <pid>',
      'shut down the kernel that owns this process (kernels of this server only)',
      processId
    )
    .option('--remove-lock', "remove libtpu's lock file if its owner has ended")
    .option('--machine <name>', "show the chips of a connected machine instead of this computer's")
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', 'print JSON')
    .action(async (options: HoldersOptions) => {
      const gateway = await chosenGateway(options);
      const { machine } = options;
      if (options.end !== undefined) await gateway.endHolder(options.end, machine);
      if (options.removeLock === true) await gateway.removeLock(machine);
      const page = await gateway.holders(machine);
      print(streams, options, page, holdersText(page, machine));
    });
}

function processId(text: string): number {
  if (!/^[1-9]\d{0,9}$/.test(text)) throw new InvalidArgumentError('PID must be a number.');
  return Number(text);
}

/** @param remote the machine with the chips; undefined: this computer */
function holdersText({ chips, holders, lock }: HoldersPage, remote?: string): string {
  const command = remote === undefined ? 'tpulab ps' : `tpulab ps --machine ${remote}`;
  if (chips === 0 && holders.length === 0 && lock.state === 'none')
    return `No TPU chips on ${remote ?? 'this machine'}.`;
  const lines = holders.flatMap(holder => holderLines(holder, command));
  if (holders.length === 0) lines.push('No process visible to you uses the chips.');
  return [...lines, ...lockLines(lock, command)].join('\n');
}

function holderLines(holder: Holder, holders: string): string[] {
  const { pid, user, command, nodes, kernelId, kernel } = holder;
  const what = nodes.length === 0 ? "libtpu's lock" : nodes.join(', ');
  const head = `process ${pid}  ${command ?? 'unknown'} of ${user ?? 'unknown'}  uses ${what}`;
  if (kernel === null) {
    const ownerText =
      kernelId === null ? 'not a kernel of this server' : `a kernel of another server (${kernelId})`;
    return [head, `  ${ownerText}`];
  }
  const { id, name, executionState, idleS, documents } = kernel;
  const state = executionState === 'idle' ? `idle for ${secondsText(idleS * 1_000)}` : executionState;
  const notebook = documents.length === 0 ? 'no notebook' : documents.join(', ');
  return [head, `  kernel ${id} (${name}), ${notebook}, ${state}`, `  end it: ${holders} --end ${pid}`];
}

function lockLines({ path, state, owner }: LibtpuLock, holders: string): string[] {
  if (state !== 'left') return [];
  return [`${path} of ${owner ?? 'unknown'} is a leftover.`, `  remove it: ${holders} --remove-lock`];
}
