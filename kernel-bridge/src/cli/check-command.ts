/** `tpulab check NOTEBOOK_OR_SCRIPT`: makes the environment with the TPU compiler, and runs the check of the agent in it. */
import { spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import path from 'node:path';
import { Command, Option } from 'commander';
import {
  aotPython,
  compilerState,
  EnvironmentCatalog,
  EnvironmentError,
  ProgressLines,
  pythonOfEnvironment
} from '@tpulab/machines/environments';
import { checkOnMachine, copiedFolder, type FileOptions, isFile } from './check-on-machine.js';
import {
  agree,
  CommandError,
  type Confirm,
  confirmOnTerminal,
  type ConfirmOptions,
  interruptible,
  type Streams,
  YES
} from './output.js';
import { RemoteCalls } from './remotes/remote-calls.js';

interface CheckOptions extends FileOptions, Pick<ConfirmOptions, 'yes'> {
  readonly env?: string;
  readonly envDir?: string;
  readonly python?: string;
  readonly on?: string;
  readonly stateDir?: string;
}

/** Options that the agent's check has under the same names: first those with a value, then switches. */
const VALUES = {
  '--chips <types>': 'machine types, with commas (default: v5e-8,v6e-8, or those of tpulab.toml)',
  '--cells <numbers>': 'only these cells of a notebook, as in 1-4,7',
  '--limit <seconds>': 'for the run on the CPU (default: 600)',
  '--save-compiled [file]':
    'save the compiled programs; kernels on such a machine load them (default: .tpulab-compiled/SOURCE.compiled)',
  '--epoch-steps <n>': 'steps of an epoch, for its price',
  '--prices <file>': "price list (default: ~/.config/tpulab/prices.toml, else TPULab's own)",
  '--config <file>': 'tpulab.toml with budgets (default: the nearest one)',
  '--compare <file>': 'report of an earlier run (--json) to compare with',
  '--junit <file>': 'write JUnit XML',
  '--sarif <file>': 'write SARIF'
} as const;
const SWITCHES = {
  '--largest-batch': 'compile larger batches until one does not fit',
  '--propose': 'compile the main step in other layouts, and show the best ones with their code',
  '--strict': 'warnings make the exit code 1 too'
} as const;

export function checkCommand(streams: Streams, confirm: Confirm = confirmOnTerminal): Command {
  const command = new Command('check')
    .description(
      'say whether a notebook or script fits TPUs, how long it compiles, the least that a step costs, and what to change. Runs it on the CPU of this computer, or of a connected machine'
    )
    .argument('<source>', 'notebook (.ipynb), script (.py) or exported PyTorch step (.zip)')
    .argument('[arguments...]', 'arguments of the script, after --')
    .option('--env <name>', 'environment that runs the source (default: aot, which has JAX, Flax and Optax)')
    .addOption(
      new Option('--python <path>', 'Python that runs the source, instead of an environment').conflicts('env')
    )
    .option('--env-dir <folder>', 'folder of environments')
    .option('--on <name>', 'check it on this machine, to which the working directory is copied')
    .option(...YES)
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)");
  const forwarded = Object.entries({ ...VALUES, ...SWITCHES }).map(
    ([flags, text]) => new Option(flags, text)
  );
  for (const option of forwarded) command.addOption(option);
  return command
    .option('--json [file]', 'the report as JSON, into a file or instead of the table')
    .addHelpText(
      'after',
      '\nExit code: 0 nothing is wrong, 1 an error was found (with --strict also a warning), 2 no check could be made.'
    )
    .action((source: string, rest: readonly string[], options: CheckOptions) =>
      interruptible(
        async signal => {
          if (statSync(source, { throwIfNoEntry: false })?.isFile() !== true) {
            throw new CommandError(
              'notebook_unusable',
              `There is no file ${path.resolve(source)}; name a notebook or a script.`
            );
          }
          const { env, envDir, python, json } = options;
          const values = options as Readonly<Record<string, string | true | undefined>>;
          const argumentsOf = (some: readonly Option[]): string[] =>
            some.flatMap(option => {
              const value = values[option.attributeName()];
              const word = option.long ?? '';
              return value === undefined ? [] : value === true ? [word] : [word, value];
            });
          const catalog = new EnvironmentCatalog(envDir === undefined ? {} : { environments: envDir });
          const machine = options.on ?? (await machineInstead(catalog, source, options, streams, confirm));
          if (machine !== null) {
            const there = forwarded.filter(option => !isFile(option.attributeName()));
            for (const [name, value] of Object.entries({ env, python, 'env-dir': envDir }))
              if (value !== undefined) there.push(new Option(`--${name} <value>`));
            process.exitCode = await checkOnMachine({
              ...{ calls: await RemoteCalls.find(options.stateDir), machine, source, files: options },
              ...{ options: argumentsOf(there), rest, confirm: options, streams, signal }
            });
            return;
          }
          const compiler = await compilerPython(catalog, streams, signal);
          const runs = python ?? (env === undefined ? compiler : await pythonOfEnvironment(catalog, env));
          const report = json === undefined ? [] : json === true ? ['--json'] : [`--json=${json}`];
          const args = [...argumentsOf(forwarded), ...report, '--python', runs, path.normalize(source)];
          process.exitCode = await runCheck(
            compiler,
            ['-m', 'tpulab.check', ...args, '--', ...rest],
            streams,
            signal
          );
        },
        ['SIGTERM', 'SIGHUP']
      )
    );
}

/** Where the TPU compiler has no wheel: the only connected machine, after a confirmation. null: the check runs here. */
async function machineInstead(
  catalog: EnvironmentCatalog,
  source: string,
  options: CheckOptions,
  streams: Streams,
  confirm: Confirm
): Promise<string | null> {
  if ((await compilerState(catalog, process.env)).state !== 'unsupported') return null;
  const machines = await RemoteCalls.find(options.stateDir).then(
    calls => calls.list(),
    () => []
  );
  const [machine, ...others] = machines.filter(({ state }) => state === 'connected').map(({ name }) => name);
  const reason = 'The TPU compiler exists for Linux on x86-64 only.';
  if (machine === undefined || others.length > 0) {
    const names = machine === undefined ? '' : `: ${[machine, ...others].join(', ')}`;
    const remedy = `Check on a connected machine: tpulab check ${source} --on NAME${names}`;
    throw new EnvironmentError('env_compiler_unsupported', `${reason} ${remedy}.`);
  }
  const plan = `${reason} The check can run on ${machine}, to which ${copiedFolder(source)} is copied.`;
  await agree(streams, options, { plan, question: `Check on ${machine}?` }, confirm);
  return machine;
}

async function compilerPython(
  catalog: EnvironmentCatalog,
  streams: Streams,
  signal: AbortSignal
): Promise<string> {
  const progress = new ProgressLines(streams.stderr);
  try {
    const print = (text: string): void => void streams.stderr.write(`${text}\n`);
    return await aotPython(catalog, { env: process.env, print, progress, signal });
  } finally {
    progress.abandon();
  }
}

function runCheck(
  python: string,
  args: readonly string[],
  streams: Streams,
  signal: AbortSignal
): Promise<number> {
  const colour = streams.stdout === process.stdout && process.stdout.isTTY ? { FORCE_COLOR: '1' } : {};
  return new Promise((resolve, reject) => {
    const child = spawn(python, args, {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ...colour },
      signal
    });
    child.stdout.setEncoding('utf8').on('data', (text: string) => streams.stdout.write(text));
    child.once('error', reject);
    child.once('close', (code, killed) => resolve(code ?? (killed === 'SIGINT' ? 130 : 1)));
  });
}
