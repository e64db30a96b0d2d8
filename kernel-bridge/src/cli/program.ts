/** The command `tpulab`. */
import { Command, CommanderError, type Option } from 'commander';
import { BRIDGE_VERSION } from '../gateway/bridge-version.js';
import { ServeError } from '@tpulab/platform/errors.js';
import { complain, type Streams } from './output.js';

/** In the order of the help. Each entry loads only its command's modules. */
const COMMANDS: Readonly<Record<string, (streams: Streams) => Promise<Command>>> = {
  serve: async streams => (await import('./serve-command.js')).serveCommand(streams),
  session: async streams => (await import('./session-command.js')).sessionCommand(streams),
  status: async streams => (await import('./status-command.js')).statusCommand(streams),
  stop: async streams => (await import('./status-command.js')).stopCommand(streams),
  kernels: async streams => (await import('./kernels/kernels-command.js')).kernelsCommand(streams),
  outputs: async streams => (await import('./outputs/outputs-command.js')).outputsCommand(streams),
  devices: async streams => (await import('./devices/devices-command.js')).devicesCommand(streams),
  runs: async streams => (await import('./runs-command.js')).runsCommand(streams),
  ps: async streams => (await import('./devices/holders-command.js')).holdersCommand(streams),
  doctor: async streams => (await import('./doctor/doctor-command.js')).doctorCommand(streams),
  journal: async streams => (await import('./journal/journal-command.js')).journalCommand(streams),
  connect: async streams => (await import('./remotes/connect-command.js')).connectCommand(streams),
  disconnect: async streams => (await import('./remotes/remotes-command.js')).disconnectCommand(streams),
  machine: async streams => (await import('./remotes/remotes-command.js')).remotesCommand(streams),
  ssh: async streams => (await import('./remotes/ssh-config-command.js')).sshCommand(streams),
  'ssh-config': async streams => (await import('./remotes/ssh-config-command.js')).sshConfigCommand(streams),
  copy: async streams => (await import('./remotes/sync-command.js')).copyCommand(streams),
  execute: async streams => (await import('./run/run-command.js')).runCommand(streams),
  check: async streams => (await import('./check-command.js')).checkCommand(streams),
  token: async streams => (await import('./token-command.js')).tokenCommand(streams),
  env: async () => (await import('./env-command.js')).envCommand(),
  examples: async streams => (await import('./lessons-command.js')).lessonsCommand(streams)
};

/** Names from older scripts and reports. Help and documentation list only the new ones. */
const FORMER: Readonly<Record<string, string>> = {
  run: 'execute',
  holders: 'ps',
  lessons: 'examples',
  push: 'copy push',
  pull: 'copy pull',
  remote: 'machine',
  remotes: 'machine'
};

const FOLDER_REMOVED =
  'The current folder has been deleted or replaced; change to it again with cd, or to another.';

/** Options of the program itself; other options without a command belong to `session`. */
const PROGRAM_OPTIONS = /^(-h|--help|-V|--version)$/;

/** Runs a command line (without `node` and the script); returns the exit code. */
export async function run(args: readonly string[], streams: Streams): Promise<number> {
  const [first = '--', ...rest] = args;
  const former = Object.hasOwn(FORMER, first) ? FORMER[first] : undefined;
  const [current = first, ...within] = former?.split(' ') ?? [];
  const argv =
    current.startsWith('-') && !PROGRAM_OPTIONS.test(current)
      ? ['session', ...args]
      : [current, ...within, ...rest];
  const json = argv.includes('--json') ? true : undefined;
  const program = await programOf(streams, argv[0]);
  quiet(program, streams);
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode;
    const isFolderRemoved = (error as NodeJS.ErrnoException).syscall === 'uv_cwd';
    complain(streams, { json }, isFolderRemoved ? new ServeError('root_dir_missing', FOLDER_REMOVED) : error);
    return 1;
  }
}

/** All commands with their options; with a name, only that command, if it exists. */
export async function programOf(streams: Streams, name?: string): Promise<Command> {
  const program = new Command('tpulab')
    .description('serve Jupyter kernels, save everything they print, and manage their environments')
    .version(BRIDGE_VERSION)
    .addHelpText(
      'after',
      '\nWithout a command: "tpulab session", which opens the notebooks of this folder in a browser.'
    )
    .hook('preAction', (_, action) => refuseEmpty(action))
    .showHelpAfterError('Run "tpulab COMMAND --help" for options.');
  const command = name !== undefined && Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  for (const make of command ? [command] : Object.values(COMMANDS)) program.addCommand(await make(streams));
  return program;
}

/**
 * An unset variable in a script becomes an empty argument; as a path it would mean the current folder, as an address every
 * interface.
 */
function refuseEmpty(command: Command): void {
  const value = (option: Option): unknown => command.getOptionValue(option.attributeName());
  const empty = [
    ...command.options
      .filter(option => !option.optional && value(option) === '')
      .map(option => `option '${option.flags}'`),
    ...command.registeredArguments
      .filter((_, index) => command.args[index] === '')
      .map(argument => `argument '${argument.name()}'`)
  ];
  if (empty.length > 0) command.error(`error: ${empty.join(' and ')} must not be empty`);
}

/** Stops commander from exiting the process, so that open resources can be closed. */
function quiet(command: Command, streams: Streams): void {
  command.exitOverride().configureOutput({
    writeOut: text => streams.stdout.write(text),
    writeErr: text => streams.stderr.write(text)
  });
  for (const child of command.commands) quiet(child, streams);
}
