/** `tpulab connect`: adds a remote if it does not exist yet, connects it, and shows the progress. */
import { Command, Option } from 'commander';
import { type ConnectRemote, isSameMachine, type Remote } from '@tpulab/protocol';
import { gcloudOnPath } from '@tpulab/machines';
import { interruptible, print, type Streams } from '../output.js';
import type { StateOptions } from '../running-gateway.js';
import { promptOnTerminal, type Prompter, followRemote } from './follow-remote.js';
import { reachOf, sourceOf, type TargetOptions, understood, withZone } from './connect-target.js';
import { RemoteCalls } from './remote-calls.js';

interface ConnectOptions extends StateOptions, TargetOptions {
  readonly name?: string;
  readonly environment?: string;
  /** commander's form of `--no-install`; if omitted, the setting stays unchanged (initially true). */
  readonly install?: boolean;
  readonly takeOver?: true;
  readonly hostOnly?: boolean;
}

export function addTargetOptions(command: Command): Command {
  return command
    .option('--name <name>', 'name of the machine (default: from the host)')
    .option(
      '--environment <name>',
      'environment to install there: jax, torch-xla, torch-tpu (default: the current one, or jax)'
    )
    .option('--install', 'install what is missing there (the default unless --no-install was given before)')
    .option('--no-install', 'install nothing there; use the tpulab on its PATH')
    .option(
      '--zone <zone>',
      "Google Cloud: zone (default: gcloud's own, or where the only machine of this name is)"
    )
    .option('--project <project>', "Google Cloud: project (default: gcloud's own)")
    .option('--internal-ip', 'Google Cloud: connect to the internal address, from now on')
    .option('--tunnel-through-iap', 'Google Cloud: tunnel through Identity-Aware Proxy (IAP), from now on')
    .addOption(new Option('--iap', 'the same').implies({ tunnelThroughIap: true }))
    .addOption(
      new Option(
        '--external-ip',
        'Google Cloud: connect to the external address from now on (the initial default)'
      ).conflicts(['internalIp', 'tunnelThroughIap'])
    )
    .option('--tpu <type>', 'Colab: v5e1 or v6e1 (default: v5e1)')
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)");
}

export function connectCommand(streams: Streams, prompt: Prompter = promptOnTerminal): Command {
  const command = new Command('connect')
    .description('connect to a TPU VM: a known machine, HOST, USER@HOST, or gcloud:[PRODUCT/]NAME')
    .argument(
      '<target>',
      'remote, ssh host, or gcloud:[tpu-vm|queued-resource|instance|instance-group/]NAME'
    );
  return addTargetOptions(command)
    .option('--host-only', "slices: kernels use only the first host's chips from now on")
    .option('--no-host-only', 'slices: kernels use the chips of all hosts from now on')
    .option('--take-over', 'stop a server of another build on the machine; its kernels keep running')
    .option('--json', 'print each change as a line of JSON')
    .action((text: string, given: ConnectOptions) =>
      interruptible(async signal => {
        const { target, options } = understood(text, given);
        const calls = await RemoteCalls.find(options.stateDir);
        const { name } = await begin(calls, target, await withZone(target, options, gcloudOnPath(), signal));
        const remote = await followRemote({ ...options, calls, name, streams, ask: prompt, signal });
        print(streams, options, remote, connectedText(remote));
      })
    );
}

/** Reuses a remote with this name or source instead of adding a second one, and applies the requested options to it. */
async function begin(calls: RemoteCalls, target: string, options: ConnectOptions): Promise<Remote> {
  const remotes = await calls.list();
  const source = sourceOf(target, options);
  const isRequested = (remote: Remote): boolean => isSameMachine(remote.source, source);
  const found =
    options.name === undefined
      ? (remotes.find(({ name }) => name === target) ?? remotes.find(isRequested))
      : remotes.find(remote => remote.name === options.name && isRequested(remote));
  if (found) return calls.connect(found.name, requestOf(options));
  const { takeOver, hostOnly } = options;
  const further = {
    ...(takeOver === true ? { takeOver } : {}),
    ...(hostOnly === undefined ? {} : { hostOnly })
  };
  if (Object.keys(further).length === 0) return calls.add(addition(source, options));
  const added = await calls.add({ ...addition(source, options), connect: false });
  return calls.connect(added.name, further);
}

function requestOf(options: ConnectOptions): ConnectRemote {
  const { environment, install, takeOver, hostOnly } = options;
  const reach = reachOf(options);
  return {
    ...(reach === undefined ? {} : { reach }),
    ...(environment === undefined ? {} : { environment }),
    ...(install === undefined ? {} : { install }),
    ...(takeOver === undefined ? {} : { takeOver }),
    ...(hostOnly === undefined ? {} : { hostOnly })
  };
}

export function addition(
  source: ReturnType<typeof sourceOf>,
  { name, environment, install }: Pick<ConnectOptions, 'name' | 'environment' | 'install'>
) {
  return {
    source,
    ...(name === undefined ? {} : { name }),
    ...(environment === undefined ? {} : { environment }),
    ...(install === undefined ? {} : { install })
  };
}

function connectedText({ name, roundTripMs, accelerator, checks }: Remote): string {
  const chips =
    accelerator && accelerator.chips > 0 ? `, ${accelerator.type ?? accelerator.chip ?? 'TPU'}` : '';
  const trip = roundTripMs === null ? '' : ` (${roundTripMs} ms)`;
  const slice = checks.find(check => check.name === 'slice');
  return [
    `${name} is connected${trip}${chips}. Its kernels are in JupyterLab's launcher; "tpulab machine describe ${name}" says more.`,
    ...(slice ? [[slice.message, slice.remedy].filter(text => text !== null).join(' ')] : [])
  ].join('\n');
}
