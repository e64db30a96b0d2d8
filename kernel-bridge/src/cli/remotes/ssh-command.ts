/** `tpulab ssh`: a shell or a command on a remote, over the connection that stands: nothing is asked, nothing logs in again. */
import { spawn } from 'node:child_process';
import { Command } from 'commander';
import type { RemoteSsh } from '@tpulab/protocol';
import { viaMaster } from '../../remotes/ssh/ssh-process.js';
import { CommandError } from '../command-errors.js';
import type { StateOptions } from '../chosen-gateway.js';
import { say, type Streams } from '../output.js';
import { RemoteCalls } from './remote-calls.js';

export type RunSsh = (program: string, args: readonly string[]) => Promise<number>;

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
      if (options.json === true) say(streams, options, { program: ssh.program, args }, '');
      else process.exitCode = await runSsh(ssh.program, args);
    });
}

/** As ssh itself: the words of the command are joined, and the shell there reads them. */
function sshArguments({ controlPath }: RemoteSsh, command: readonly string[]): string[] {
  return command.length === 0 ? viaMaster(controlPath, []) : viaMaster(controlPath, [], command.join(' '));
}

/** Ctrl+C is the program's there, so it must not end this one. */
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
