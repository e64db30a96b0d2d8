/** `tpulab ssh-config`: an entry for ssh_config, so that VS Code, rsync and scp reach a remote by its name. */
import { execFile, spawn } from 'node:child_process';
import { realpath } from 'node:fs/promises';
import { homeFolder } from '@tpulab/platform/user-folders.js';
import path from 'node:path';
import { promisify } from 'node:util';
import { Command } from 'commander';
import type { RemoteSsh } from '@tpulab/protocol';
import { writeAtomically } from '@tpulab/platform/write-atomically.js';
import { CommandError, print, type Streams } from '../output.js';
import type { StateOptions } from '../running-gateway.js';
import { RemoteCalls } from './remote-calls.js';
import { viaMaster } from '@tpulab/machines';
import { makeFolder, readIfThere } from '@tpulab/platform/missing-files.js';

interface SshConfigOptions extends StateOptions {
  readonly write?: true;
}

/** Beside the user's own file, which includes our file. */
const TPULAB_CONFIG = 'tpulab_config';
const INCLUDE = `Include ${TPULAB_CONFIG}`;

/** Output of `ssh -G` that describes the route to a host; the user's own defaults supply the rest. */
const ROUTE_OPTIONS = new Map(
  [
    'HostName',
    'User',
    'Port',
    'IdentityFile',
    'CertificateFile',
    'IdentitiesOnly',
    'HostKeyAlias',
    'UserKnownHostsFile',
    'ProxyJump',
    'ProxyCommand'
  ].map(name => [name.toLowerCase(), name])
);

export function sshConfigCommand(streams: Streams, home = homeFolder()): Command {
  return new Command('ssh-config')
    .description('print an ssh_config entry so that VS Code, rsync and scp reach a machine by name')
    .argument('<name>', 'the machine, as "tpulab machine ls" shows it')
    .option('--write', `write it to ~/.ssh/${TPULAB_CONFIG} and include that file in ~/.ssh/config`)
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', 'print JSON')
    .action(async (name: string, options: SshConfigOptions) => {
      const ssh = await (await RemoteCalls.find(options.stateDir)).ssh(name);
      const entry = await entryOf(name, ssh);
      if (options.write !== true) {
        print(streams, options, { name, entry }, entry);
        return;
      }
      const folder = path.join(home, '.ssh');
      await writeEntry(folder, name, entry);
      const file = path.join(folder, TPULAB_CONFIG);
      print(
        streams,
        options,
        { name, entry, file },
        `${file} has ${name}: "ssh ${name}" works now, and VS Code lists it.`
      );
    });
}

/** The entry uses the open connection; once that is closed, ssh logs in as usual. */
async function entryOf(
  name: string,
  { program, controlPath, destination, options }: RemoteSsh
): Promise<string> {
  const { stdout } = await promisify(execFile)(program, [...options, '-N', '-G', '--', destination]).catch(
    (cause: unknown) => {
      throw new CommandError(
        'ssh_not_started',
        `The program ${program} does not report how it reaches ${destination}; install OpenSSH 6.8 or newer.`,
        { cause }
      );
    }
  );
  const lines = stdout.split('\n').flatMap(line => {
    const space = line.indexOf(' ');
    const [key, value] = [ROUTE_OPTIONS.get(line.slice(0, space)), line.slice(space + 1).trim()];
    return key === undefined || value === '' || value === 'none' ? [] : [`  ${key} ${value}`];
  });
  return [`Host ${name}`, ...lines, `  ControlPath ${controlPath}`, '  ControlMaster no'].join('\n');
}

/** Replaces the entry of this name and preserves other entries. */
export async function writeEntry(folder: string, name: string, entry: string): Promise<void> {
  await makeFolder(folder, 0o700);
  const ours = path.join(folder, TPULAB_CONFIG);
  const others = ((await readIfThere(ours)) ?? '')
    .split(/^(?=Host )/m)
    .filter(one => !one.startsWith(`Host ${name}\n`));
  const blocks = others.map(one => one.trim()).filter(one => one !== '');
  await writeAtomically(ours, `${[...blocks, entry].join('\n\n')}\n`);
  const config = path.join(folder, 'config');
  const own = (await readIfThere(config)) ?? '';
  // At the top of the file: after a Host line, the Include would apply to that host only.
  if (!own.split('\n').includes(INCLUDE))
    await writeAtomically(await realpath(config).catch(() => config), `${INCLUDE}\n\n${own}`);
}

type RunSsh = (program: string, args: readonly string[]) => Promise<number>;

/** `tpulab ssh`: a shell or a command on a remote, over the open connection: without a prompt or a new login. */
export function sshCommand(streams: Streams, runSsh: RunSsh = onThisTerminal): Command {
  return new Command('ssh')
    .description('open a shell or run a command on a machine over its existing connection')
    .argument('<name>', 'the machine, as "tpulab machine ls" shows it')
    .argument('[command...]', 'command to run on the machine, after "--"; its exit code is returned')
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', 'print the ssh command line as JSON without running it')
    .action(async (name: string, command: readonly string[], options: StateOptions) => {
      const ssh = await (await RemoteCalls.find(options.stateDir)).ssh(name);
      const args = sshArguments(ssh, command);
      if (options.json === true) print(streams, options, { program: ssh.program, args }, '');
      else process.exitCode = await runSsh(ssh.program, args);
    });
}

/** Like ssh itself: joins the words of the command, which the shell there parses. */
function sshArguments({ controlPath }: RemoteSsh, command: readonly string[]): string[] {
  return command.length === 0 ? viaMaster(controlPath, []) : viaMaster(controlPath, [], command.join(' '));
}

/** Ctrl+C is meant for the program there, so it must not end this one. */
async function onThisTerminal(program: string, args: readonly string[]): Promise<number> {
  const ignore = (): void => undefined;
  process.on('SIGINT', ignore);
  try {
    return await new Promise<number>((resolve, reject) => {
      const child = spawn(program, args, { stdio: 'inherit' });
      child.once('error', cause =>
        reject(
          new CommandError('ssh_not_started', `The program ${program} cannot be started; install OpenSSH.`, {
            cause
          })
        )
      );
      child.once('close', code => resolve(code ?? 255));
    });
  } finally {
    process.off('SIGINT', ignore);
  }
}
