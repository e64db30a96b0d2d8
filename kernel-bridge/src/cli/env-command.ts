/** `tpulab env list|create|add|check|remove` for commander. */
import { Command, Option } from 'commander';
import type { EnvironmentInfo } from '@tpulab/protocol';
import {
  type Accelerator,
  add,
  check,
  type CheckResult,
  create,
  EnvironmentCatalog,
  EnvironmentError,
  everyLine,
  ProgressLines,
  remove,
  sweepLeftovers
} from '@tpulab/machines/environments';

interface Common {
  readonly envDir?: string;
  readonly definitions?: string;
  readonly json?: true;
}

interface Create extends Common {
  readonly python?: string;
  readonly agent?: string;
  readonly recipes?: string;
  readonly accelerator?: 'auto' | Accelerator;
  readonly progress?: 'auto' | 'lines';
  readonly force?: true;
  readonly withoutAdded?: true;
  readonly also?: string;
}

export function envCommand(): Command {
  const env = new Command('env').description('create, check and remove the Python environments of kernels');
  withCommon(env.command('list'))
    .description('list available and created environments')
    .action((options: Common) =>
      run(options, async () => {
        const catalog = catalogOf(options);
        await sweepLeftovers(catalog.environments);
        const infos = await catalog.list();
        print(
          options,
          infos,
          infos.map(describe).join('\n') || 'There are no environment definitions and no environments.'
        );
      })
    );
  withCommon(env.command('create'))
    .description('create an environment; an existing one that is up to date is kept')
    .argument('<name>', 'name of the environment, as in `tpulab env list`')
    .option('--python <version|path>', 'Python to use (default: the first suitable one found)')
    .option('--agent <path>', 'folder or wheel of the Python package `tpulab`')
    .option('--recipes <path>', 'folder or wheel of the Python package `tpulab_recipes`')
    .addOption(
      new Option('--accelerator <kind>', 'device of its kernels; auto: TPU if this machine has chips')
        .choices(['auto', 'cpu', 'tpu'])
        .default('auto')
    )
    .addOption(
      new Option('--progress <how>', 'lines: one line per step').choices(['auto', 'lines']).default('auto')
    )
    .option('--force', 'create it again even if it is up to date')
    .option('--without-added', 'leave out packages that you added to the replaced environment')
    .option('--also <lines>', 'more packages, one per line; packages that cannot be installed are left out')
    .action((name: string, options: Create) =>
      run(options, async signal => {
        const progress =
          options.progress === 'lines' ? everyLine(process.stderr) : new ProgressLines(process.stderr);
        try {
          const { python, agent, recipes, force = false, withoutAdded } = options;
          const accelerator = options.accelerator === 'auto' ? undefined : options.accelerator;
          const also = options.also?.split('\n').filter(line => line !== '');
          const chosen = { python, agent, recipes, force, accelerator, withoutAdded, also };
          const done = await create(catalogOf(options), name, { ...chosen, progress, signal });
          const what = done.result === 'created' ? 'is ready' : 'is there and up to date';
          print(options, done, `The environment "${name}" ${what}: ${done.environment.path ?? ''}`);
        } finally {
          progress.abandon();
        }
      })
    );
  withCommon(env.command('add'))
    .description('make an environment of yours (venv, conda, uv) a kernel, with the agent in it')
    .argument('<path>', 'folder of the environment, or its Python')
    .option('--name <name>', "name in the list (default: the folder's, for .venv that of its project)")
    .option('--agent <path>', 'folder or wheel of the Python package `tpulab`')
    .action((place: string, options: Common & { readonly name?: string; readonly agent?: string }) =>
      run(options, async signal => {
        const progress = new ProgressLines(process.stderr);
        try {
          const { name = null, agent } = options;
          const info = await add(catalogOf(options), place, { name, agent, progress, signal });
          print(options, info, `The environment "${info.name}" is a kernel now: ${info.kernelspec}`);
        } finally {
          progress.abandon();
        }
      })
    );
  withCommon(env.command('check'))
    .description('test an environment and report problems')
    .argument('<name>', 'name of the environment, as in `tpulab env list`')
    .action((name: string, options: Common) =>
      run(options, async signal => {
        const result = await check(catalogOf(options), name, signal);
        print(options, result, describeCheck(result));
        if (!result.ok) process.exitCode = 1;
      })
    );
  withCommon(env.command('remove'))
    .description('delete an environment; shut down its kernels first')
    .argument('<name>', 'name of the environment, as in `tpulab env list`')
    .action((name: string, options: Common) =>
      run(options, async () => {
        await remove(catalogOf(options), name);
        print(options, { removed: name }, `The environment "${name}" is removed.`);
      })
    );
  return env;
}

function withCommon(command: Command): Command {
  return command
    .option(
      '--env-dir <folder>',
      'folder of environments (default: $TPULAB_ENV_DIR, else .tpulab/envs in a checkout, else the XDG data folder)'
    )
    .option('--definitions <folder>', "folder of environment descriptions (default: the server's own)")
    .option('--json', 'print the result as JSON');
}

function catalogOf(options: Common): EnvironmentCatalog {
  return new EnvironmentCatalog({
    ...(options.envDir === undefined ? {} : { environments: options.envDir }),
    ...(options.definitions === undefined ? {} : { definitions: options.definitions })
  });
}

const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** Runs one command: a signal aborts it cleanly, and a failure produces one sentence and an exit code. */
async function run(options: Common, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const controller = new AbortController();
  const interrupted = { code: 1 };
  const onSignal = (name: keyof typeof SIGNALS) => {
    interrupted.code = SIGNALS[name];
    controller.abort();
  };
  for (const name of Object.keys(SIGNALS)) process.on(name, onSignal);
  try {
    await work(controller.signal);
  } catch (error) {
    if (!(error instanceof EnvironmentError)) throw error;
    if (options.json)
      process.stdout.write(`${JSON.stringify({ error: { code: error.code, message: error.message } })}\n`);
    else process.stderr.write(`${error.message}\n`);
    process.exitCode = interrupted.code;
  } finally {
    for (const name of Object.keys(SIGNALS)) process.off(name, onSignal);
  }
}

function print(options: Common, value: unknown, text: string): void {
  process.stdout.write(`${options.json ? JSON.stringify(value) : text}\n`);
}

function describe(info: EnvironmentInfo): string {
  const lines = [`${info.name.padEnd(12)} ${info.state.padEnd(10)} ${info.displayName}`];
  if (info.detail !== null) lines.push(`${' '.repeat(24)}${info.detail}`);
  if (info.path !== null) lines.push(`${' '.repeat(24)}${info.path}`);
  return lines.join('\n');
}

function describeCheck(result: CheckResult): string {
  const lines = result.checks.map(each => {
    const remedy = each.ok || each.remedy === null ? '' : `\n         ${each.remedy}`;
    return `  ${each.ok ? 'ok    ' : 'FAILED'} ${each.check}: ${each.detail}${remedy}`;
  });
  const verdict = result.ok ? 'is in order' : 'is not in order';
  return [`The environment "${result.name}" ${verdict}.`, ...lines].join('\n');
}
