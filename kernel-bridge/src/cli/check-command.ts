/** `tpulab check NOTEBOOK_OR_SCRIPT`: makes the environment with the TPU compiler, and runs the check of the agent in it. */
import { spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import path from 'node:path';
import { Command, Option } from 'commander';
import {
  aotPython,
  EnvironmentCatalog,
  ProgressLines,
  pythonOfEnvironment
} from '@tpulab/machines/environments';
import { CommandError, interruptible, type Streams } from './output.js';

interface CheckOptions {
  readonly env?: string;
  readonly envDir?: string;
  readonly python?: string;
  readonly json?: true | string;
}

/** Options that the agent's check has under the same name: options with a value, and switches. */
const VALUES = {
  '--chips <types>': 'machine types, with commas (default: v5e-8,v6e-8, or those of tpulab.toml)',
  '--cells <numbers>': 'only these cells of a notebook, as in 1-4,7',
  '--limit <seconds>': 'for the run on the CPU (default: 600)',
  '--save-compiled [file]':
    'write the compiled programs, which kernels on such a machine take (default: .tpulab-compiled/SOURCE.compiled)',
  '--epoch-steps <n>': 'steps of an epoch, for its price',
  '--prices <file>': 'price list (default: ~/.config/tpulab/prices.toml, else the one of TPULab)',
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

export function checkCommand(streams: Streams): Command {
  const command = new Command('check')
    .description(
      'say whether a notebook or script fits TPUs, how long it compiles, what a step costs at the least, and what to change. Runs it on the CPU of this computer'
    )
    .argument('<source>', 'notebook (.ipynb), script (.py) or exported PyTorch step (.zip)')
    .argument('[arguments...]', 'arguments of the script, after --')
    .option('--env <name>', 'environment that runs the source (default: aot, which has JAX, Flax and Optax)')
    .option('--python <path>', 'Python that runs the source, instead of an environment')
    .option('--env-dir <folder>', 'folder of environments');
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
          const { env, envDir } = options;
          const catalog = new EnvironmentCatalog(envDir === undefined ? {} : { environments: envDir });
          const python = await compilerPython(catalog, streams, signal);
          const runs =
            options.python ?? (env === undefined ? python : await pythonOfEnvironment(catalog, env));
          const values = options as Readonly<Record<string, string | true | undefined>>;
          const args = forwarded.flatMap(option => {
            const value = values[option.attributeName()];
            return value === undefined
              ? []
              : value === true
                ? [option.long ?? '']
                : [option.long ?? '', value];
          });
          const { json } = options;
          const report = json === undefined ? [] : json === true ? ['--json'] : [`--json=${json}`];
          process.exitCode = await runCheck(
            python,
            [
              '-m',
              'tpulab.check',
              ...args,
              ...report,
              '--python',
              runs,
              path.normalize(source),
              '--',
              ...rest
            ],
            streams,
            signal
          );
        },
        ['SIGTERM', 'SIGHUP']
      )
    );
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
