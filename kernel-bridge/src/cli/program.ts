/** The command `tpulab`. */
import { Command, CommanderError } from 'commander';
import { envCommand } from '../environments/index.js';
import { BRIDGE_VERSION } from '../gateway/bridge-version.js';
import { devicesCommand } from './devices/devices-command.js';
import { holdersCommand } from './devices/holders-command.js';
import { doctorCommand } from './doctor/doctor-command.js';
import { journalCommand } from './journal/journal-command.js';
import { kernelsCommand } from './kernels/kernels-command.js';
import { lessonsCommand } from './lessons-command.js';
import { complain, type Streams } from './output.js';
import { outputsCommand } from './outputs/outputs-command.js';
import { connectCommand } from './remotes/connect-command.js';
import { disconnectCommand } from './remotes/disconnect-command.js';
import { remotesCommand } from './remotes/remotes-command.js';
import { sshCommand } from './remotes/ssh-command.js';
import { sshConfigCommand } from './remotes/ssh-config-command.js';
import { pullCommand, pushCommand } from './remotes/sync-command.js';
import { runCommand } from './run/run-command.js';
import { serveCommand } from './serve-command.js';
import { sessionCommand } from './session-command.js';
import { statusCommand } from './status-command.js';
import { stopCommand } from './stop-command.js';
import { tokenCommand } from './token-command.js';

/** Runs a command line (without `node` and the script); the result is the exit code. */
export async function run(argv: readonly string[], streams: Streams): Promise<number> {
  const json = argv.includes('--json') ? true : undefined;
  const program = programOf(streams);
  quiet(program, streams);
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode;
    complain(streams, { json }, error);
    return 1;
  }
}

/** All commands with their options. */
export function programOf(streams: Streams): Command {
  const program = new Command('tpulab')
    .description('serve Jupyter kernels, keep everything they print, and manage their environments')
    .version(BRIDGE_VERSION)
    .showHelpAfterError('(add --help for what is possible)');
  for (const command of [
    serveCommand(streams),
    sessionCommand(streams),
    statusCommand(streams),
    stopCommand(streams),
    kernelsCommand(streams),
    outputsCommand(streams),
    devicesCommand(streams),
    holdersCommand(streams),
    doctorCommand(streams),
    journalCommand(streams),
    connectCommand(streams),
    disconnectCommand(streams),
    remotesCommand(streams),
    sshCommand(streams),
    sshConfigCommand(streams),
    pushCommand(streams),
    pullCommand(streams),
    runCommand(streams),
    tokenCommand(streams),
    envCommand(),
    lessonsCommand(streams)
  ]) {
    program.addCommand(command);
  }
  return program;
}

/** No command ends the process by itself, so that what is open can be closed. */
function quiet(command: Command, streams: Streams): void {
  command.exitOverride().configureOutput({
    writeOut: text => streams.stdout.write(text),
    writeErr: text => streams.stderr.write(text)
  });
  for (const child of command.commands) quiet(child, streams);
}
