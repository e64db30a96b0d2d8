/** Runs the keeper's program as a separate process that outlives this one, and the login session where possible. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { KeeperTask } from '../keeper-protocol/contract.js';
import { kernelPaths } from '../keeper-protocol/keeper-file.js';
import { listening, NotStartedError, reportOf, type ReportOptions } from '../keeper-protocol/start-report.js';
import {
  findUserScope,
  giveUpScopes,
  inScope,
  MANAGER_VARIABLES,
  type SystemdFolders,
  unitOf
} from './user-scope.js';

/** The compiled file, even when this module runs from its source under a test runner. */
const ENTRY = new URL('../../lib/keeper/main.js', import.meta.url);

/** The variables that Node needs. Secrets of the gateway are not passed on. */
const KEEPER_ENV = [
  'PATH',
  'HOME',
  'LANG',
  'LC_ALL',
  'TMPDIR',
  'TZ',
  'LD_LIBRARY_PATH',
  'NODE_EXTRA_CA_CERTS'
];

export interface LaunchOptions extends ReportOptions {
  /** The keeper's program, when it is not the compiled one beside this module. */
  readonly entry?: URL;
  /** The folders of systemd; tests use others. */
  readonly systemd?: SystemdFolders;
}

/** Resolves once the keeper listens. Rejects with the keeper's report; no keeper remains then. */
export async function launchKeeper(
  task: KeeperTask,
  kernelDir: string,
  options: LaunchOptions = {}
): Promise<ChildProcess> {
  const { keeperLog } = kernelPaths(kernelDir);
  const launch = (run: KeeperRun): Promise<ChildProcess> => {
    const child = spawnKeeper(run, [task, kernelDir], kernelDir, keeperLog, options);
    const reported = reportOf(child, options, keeperLog);
    // SIGTERM: a keeper ends the kernel that it has started. SIGKILL: a kernel that it was to take over must survive.
    return listening(child, reported, task === 'start' ? 'SIGTERM' : 'SIGKILL');
  };
  const run = await keeperRun(unitOf(basename(kernelDir)), options);
  options.signal?.throwIfAborted();
  try {
    return await launch(run);
  } catch (error) {
    if (!run.isScope || !(error instanceof NotStartedError)) throw error;
    const { why } = giveUpScopes(run.env, 'systemd-run failed, see above');
    return launch(withoutScope(why));
  }
}

/**
 * Starts a keeper that loads its program and then waits for a kernel folder on descriptor 3. It ends when that is closed
 * first.
 */
export async function launchSpare(
  folder: string,
  logFile: string,
  options: Pick<LaunchOptions, 'entry' | 'systemd'> = {}
): Promise<ChildProcess> {
  return spawnKeeper(await keeperRun(unitOf('spare'), options), ['spare'], folder, logFile, options);
}

/** The command of a keeper, its folder, and its variables. */
interface KeeperRun {
  readonly isScope: boolean;
  readonly command: (keeper: readonly string[]) => readonly string[];
  readonly env: Record<string, string>;
  /** For the keeper's log. */
  readonly scope: string;
}

async function keeperRun(unit: string, { systemd }: LaunchOptions): Promise<KeeperRun> {
  const env = variables([...KEEPER_ENV, ...MANAGER_VARIABLES]);
  const choice = await findUserScope({ env, ...(systemd && { folders: systemd }) });
  return choice.isThere
    ? { isScope: true, command: keeper => inScope(unit, keeper), env, scope: unit }
    : withoutScope(choice.why);
}

function withoutScope(why: string): KeeperRun {
  return {
    isScope: false,
    command: keeper => keeper,
    env: variables(KEEPER_ENV),
    scope: `none: ${why}`
  };
}

function variables(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap(name => (process.env[name] ? [[name, process.env[name]]] : [])));
}

/** Listens in this turn, so that no event of the child is missed: a program that cannot be run ends immediately. */
function spawnKeeper(
  run: KeeperRun,
  args: readonly string[],
  cwd: string,
  logFile: string,
  { entry = ENTRY }: LaunchOptions
): ChildProcess {
  const [program = '', ...rest] = run.command([process.execPath, fileURLToPath(entry), ...args, run.scope]);
  const log = openSync(logFile, 'a', 0o600);
  try {
    return spawn(program, rest, { detached: true, cwd, env: run.env, stdio: ['ignore', log, log, 'pipe'] });
  } finally {
    closeSync(log);
  }
}
