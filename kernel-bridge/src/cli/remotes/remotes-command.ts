/** `tpulab remotes`: the machines that the running gateway reaches over ssh. */
import { Command } from 'commander';
import { type OutputOptions, say, type Streams } from '../output.js';
import { addition, addTargetOptions } from './connect-command.js';
import { sourceOf, type TargetOptions } from './connect-target.js';
import { RemoteCalls } from './remote-calls.js';
import { addSyncCommand } from './sync-command.js';
import { candidatesText, remotesText, statusText } from './remotes-text.js';

interface RemotesOptions extends OutputOptions {
  readonly stateDir?: string;
}

export function remotesCommand(streams: Streams): Command {
  const remotes = new Command('remotes').description(
    'the TPU VMs and other machines that the running gateway reaches over ssh'
  );

  sub(remotes, 'list', 'show the remotes and how they are').action(async (options: RemotesOptions) => {
    const found = await (await RemoteCalls.find(options.stateDir)).list();
    say(streams, options, { remotes: found }, remotesText(found));
  });

  sub(remotes, 'candidates', "show what could be connected to: ssh hosts, and a project's TPU VMs")
    .option('--project <project>', "Google Cloud: project (default: gcloud's own)")
    .action(async (options: RemotesOptions & { readonly project?: string }) => {
      const found = await (await RemoteCalls.find(options.stateDir)).candidates(options.project);
      say(streams, options, found, candidatesText(found));
    });

  addTargetOptions(
    remotes
      .command('add')
      .description('add a remote without connecting it')
      .argument('<target>', 'as for connect')
  )
    .option('--json', 'print JSON')
    .action(
      async (
        target: string,
        options: RemotesOptions &
          TargetOptions & {
            readonly name?: string;
            readonly environment?: string;
            readonly install?: boolean;
          }
      ) => {
        const calls = await RemoteCalls.find(options.stateDir);
        const added = await calls.add({ ...addition(sourceOf(target, options), options), connect: false });
        say(streams, options, added, `${added.name} added; connect it with "tpulab connect ${added.name}".`);
      }
    );

  sub(remotes, 'status', 'show one remote in full')
    .argument('<name>')
    .action(async (name: string, options: RemotesOptions) => {
      const remote = await (await RemoteCalls.find(options.stateDir)).get(name);
      say(streams, options, remote, statusText(remote));
    });

  sub(remotes, 'log', 'show what happened to a remote')
    .argument('<name>')
    .action(async (name: string, options: RemotesOptions) => {
      const lines = await (await RemoteCalls.find(options.stateDir)).log(name);
      const text = lines.map(({ at, text }) => `${new Date(at).toISOString()} ${text}`).join('\n');
      say(streams, options, { lines }, text);
    });

  for (const [name, action, what, done] of ACTIONS) {
    sub(remotes, name, what)
      .argument('<name>')
      .action(async (remote: string, options: RemotesOptions) => {
        const found = await (await RemoteCalls.find(options.stateDir)).act(remote, action);
        say(streams, options, found, `${remote} ${done}.`);
      });
  }

  sub(remotes, 'remove', 'disconnect and forget a remote; what runs there goes on')
    .argument('<name>')
    .action(async (name: string, options: RemotesOptions) => {
      await (await RemoteCalls.find(options.stateDir)).remove(name);
      say(streams, options, { removed: name }, `${name} removed; what was installed there stays.`);
    });
  addSyncCommand(remotes, streams);
  return remotes;
}

const ACTIONS = [
  ['reconnect', 'connect', 'try at once to connect', 'is being connected'],
  ['disconnect', 'disconnect', 'end the connection; what runs there goes on', 'is disconnected'],
  [
    'clean',
    'clean',
    'end what runs on a remote and remove everything that was installed there',
    'is clean: nothing of TPULab is left there'
  ]
] as const;

function sub(parent: Command, name: string, what: string): Command {
  return parent
    .command(name)
    .description(what)
    .option('--state-dir <folder>', 'state folder of the gateway (default: $XDG_STATE_HOME/tpulab)')
    .option('--json', 'print JSON');
}
