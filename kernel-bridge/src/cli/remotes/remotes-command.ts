/** `tpulab remote`: the machines that the running gateway reaches over ssh. */
import { Command } from 'commander';
import { gcloudOnPath } from '../../remotes/gcloud/gcloud.js';
import { agree, type Confirm, type ConfirmOptions, confirmOnTerminal, YES } from '../confirm.js';
import { ofState, type StateOptions } from '../chosen-gateway.js';
import { say, type Streams } from '../output.js';
import { addition, addTargetOptions } from './connect-command.js';
import { disconnectCommand } from './disconnect-command.js';
import { sourceOf, type TargetOptions, withZone } from './connect-target.js';
import { interruptible } from '../interruptible.js';
import { RemoteCalls } from './remote-calls.js';
import { candidatesText, remotesText, statusText } from './remotes-text.js';

export function remotesCommand(streams: Streams, confirm: Confirm = confirmOnTerminal): Command {
  const remotes = new Command('remote')
    .alias('remotes')
    .description('manage TPU VMs and other machines that the running gateway connects to over ssh');

  sub(remotes, 'ls', 'show the remotes and how they are')
    .alias('list')
    .action(async (options: StateOptions) => {
      const found = await (await RemoteCalls.find(options.stateDir)).list();
      say(streams, options, { remotes: found }, remotesText(found));
    });

  sub(remotes, 'candidates', "list possible targets: ssh hosts, and a project's TPU VMs")
    .option('--project <project>', "Google Cloud: project (default: gcloud's own)")
    .action(async (options: StateOptions & { readonly project?: string }) => {
      const found = await (await RemoteCalls.find(options.stateDir)).candidates(options.project);
      say(streams, options, found, candidatesText(found));
    });

  addTargetOptions(
    remotes
      .command('add')
      .description('add a remote without connecting it')
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
          say(
            streams,
            options,
            added,
            `${added.name} added; connect it with "tpulab connect ${added.name}".`
          );
        })
    );

  sub(remotes, 'describe', 'show one remote in full')
    .alias('status')
    .argument('<name>')
    .action(async (name: string, options: StateOptions) => {
      const remote = await (await RemoteCalls.find(options.stateDir)).get(name);
      say(streams, options, remote, statusText(remote));
    });

  sub(remotes, 'log', 'show what happened to a remote')
    .argument('<name>')
    .action(async (name: string, options: StateOptions) => {
      const lines = await (await RemoteCalls.find(options.stateDir)).log(name);
      const text = lines.map(({ at, text }) => `${new Date(at).toISOString()} ${text}`).join('\n');
      say(streams, options, { lines }, text);
    });

  sub(remotes, 'reconnect', 'try at once to connect')
    .argument('<name>')
    .action(async (name: string, options: StateOptions) => {
      const found = await (await RemoteCalls.find(options.stateDir)).act(name, 'connect');
      say(streams, options, found, `${name} is being connected.`);
    });

  remotes.addCommand(disconnectCommand(streams));

  sub(remotes, 'clean', 'end what runs on a remote and remove everything that was installed there')
    .argument('<name>')
    .option(...YES)
    .action(async (name: string, options: StateOptions & ConfirmOptions) => {
      const calls = await RemoteCalls.find(options.stateDir);
      await agree(
        streams,
        options,
        {
          plan: `All kernels on ${name} end, and the folder ~/.tpulab there is deleted: environments, the bridge, and the journals of its kernels. Your own files stay.`,
          question: `Clean ${name}?`
        },
        confirm
      );
      const found = await calls.act(name, 'clean');
      say(streams, options, found, `${name} is clean: TPULab was removed from it.`);
    });

  sub(remotes, 'rm', 'disconnect and forget a remote; what runs there goes on')
    .alias('remove')
    .argument('<name>')
    .action(async (name: string, options: StateOptions) => {
      await (await RemoteCalls.find(options.stateDir)).remove(name);
      say(streams, options, { removed: name }, `${name} removed; what was installed there stays.`);
    });
  return remotes;
}

function sub(parent: Command, name: string, what: string): Command {
  return ofState(parent.command(name).description(what));
}
