/** `tpulab machine`: the machines that the running gateway reaches over ssh. */
import { Command } from 'commander';
import { gcloudOnPath } from '@tpulab/machines';
import {
  agree,
  type Confirm,
  confirmOnTerminal,
  type ConfirmOptions,
  interruptible,
  print,
  type Streams,
  YES
} from '../output.js';
import { ofState, type StateOptions } from '../running-gateway.js';
import { addition, addTargetOptions } from './connect-command.js';
import { sourceOf, type TargetOptions, withZone } from './connect-target.js';
import { RemoteCalls } from './remote-calls.js';
import { candidatesText, remotesText, statusText } from './remotes-text.js';
import type { Remote } from '@tpulab/protocol';

export function remotesCommand(streams: Streams, confirm: Confirm = confirmOnTerminal): Command {
  const remotes = new Command('machine').description(
    'manage TPU VMs and other machines that the running server connects to over ssh'
  );

  sub(remotes, 'ls', 'list machines and their status').action(async (options: StateOptions) => {
    const found = await (await RemoteCalls.find(options.stateDir)).list();
    print(streams, options, { remotes: found }, remotesText(found));
  });

  sub(remotes, 'candidates', "list possible targets: ssh hosts, and a project's TPU VMs")
    .option('--project <project>', "Google Cloud: project (default: gcloud's own)")
    .action(async (options: StateOptions & { readonly project?: string }) => {
      const found = await (await RemoteCalls.find(options.stateDir)).candidates(options.project);
      print(streams, options, found, candidatesText(found));
    });

  addTargetOptions(
    remotes
      .command('add')
      .description('add a machine without connecting to it')
      .argument('<target>', 'the same as for `tpulab connect`')
  )
    .option('--json', 'print JSON')
    .action(
      (
        target: string,
        options: StateOptions &
          TargetOptions & {
            readonly name?: string;
            readonly environment?: string;
            readonly install?: boolean;
          }
      ) =>
        interruptible(async signal => {
          const calls = await RemoteCalls.find(options.stateDir);
          const source = sourceOf(target, await withZone(target, options, gcloudOnPath(), signal));
          const added = await calls.add({ ...addition(source, options), connect: false });
          print(
            streams,
            options,
            added,
            `${added.name} added; connect to it with "tpulab connect ${added.name}".`
          );
        })
    );

  sub(remotes, 'describe', 'show all details of a machine')
    .argument('<name>')
    .action(async (name: string, options: StateOptions) => {
      const remote = await (await RemoteCalls.find(options.stateDir)).get(name);
      print(streams, options, remote, statusText(remote));
    });

  sub(remotes, 'log', 'show the connection log of a machine')
    .argument('<name>')
    .action(async (name: string, options: StateOptions) => {
      const lines = await (await RemoteCalls.find(options.stateDir)).log(name);
      const text = lines.map(({ at, text }) => `${new Date(at).toISOString()} ${text}`).join('\n');
      print(streams, options, { lines }, text);
    });

  sub(remotes, 'reconnect', 'connect now instead of at the next retry')
    .argument('<name>')
    .action(async (name: string, options: StateOptions) => {
      const found = await (await RemoteCalls.find(options.stateDir)).act(name, 'connect');
      print(streams, options, found, `${name} is being connected.`);
    });

  remotes.addCommand(disconnectCommand(streams));

  sub(remotes, 'clean', 'end all kernels on a machine and remove what TPULab installed on it')
    .argument('<name>')
    .option(...YES)
    .action(async (name: string, options: StateOptions & ConfirmOptions) => {
      const calls = await RemoteCalls.find(options.stateDir);
      await calls.get(name);
      await agree(
        streams,
        options,
        {
          plan: `All kernels on ${name} end, and the folder ~/.tpulab there is deleted: environments, the server, and the output history of its kernels. Your own files are not touched.`,
          question: `Clean ${name}?`
        },
        confirm
      );
      const found = await calls.act(name, 'clean');
      print(streams, options, found, `${name} is clean: TPULab was removed from it.`);
    });

  sub(remotes, 'rm', 'forget a machine (kernels on it keep running)')
    .argument('<name>')
    .action(async (name: string, options: StateOptions) => {
      await (await RemoteCalls.find(options.stateDir)).remove(name);
      print(streams, options, { removed: name }, `${name} removed; TPULab stays installed on it.`);
    });
  return remotes;
}

function sub(parent: Command, name: string, what: string): Command {
  return ofState(parent.command(name).description(what));
}

interface DisconnectOptions extends StateOptions {
  readonly stop?: true;
}

/** `tpulab disconnect`: ends the connection to a remote, and with `--stop` the Colab runtime itself. */
export function disconnectCommand(streams: Streams): Command {
  return new Command('disconnect')
    .description('disconnect from a machine; its kernels keep running')
    .argument('<name>')
    .option('--stop', 'Colab: end the runtime too, with its kernels and files, and check that it has ended')
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', 'print JSON')
    .action(async (name: string, options: DisconnectOptions) => {
      const calls = await RemoteCalls.find(options.stateDir);
      const remote = await calls.disconnect(name, options.stop === true);
      print(streams, options, remote, disconnectedText(remote, options.stop === true));
    });
}

function disconnectedText({ name, source }: Remote, isStopped: boolean): string {
  if (isStopped) return `${name} is disconnected, and its Colab runtime has ended.`;
  if (source.kind !== 'colab') return `${name} is disconnected.`;
  return `${name} is disconnected. Its Colab runtime keeps running and uses compute units; end it with "tpulab disconnect ${name} --stop".`;
}
