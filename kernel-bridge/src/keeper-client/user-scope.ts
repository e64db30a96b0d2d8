/**
 * The systemd scope of a keeper: a separate scope below the user's manager, so that neither the end of a login session nor
 * the end of the gateway's service ends the keeper.
 *
 * Only for users with lingering. Without lingering, the manager ends with the user's last session and ends its scopes,
 * while a process of a session outlives that session if systemd was built or configured to allow it
 * (`KillUserProcesses=no`).
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A reachable manager answers within some hundredths of a second. */
const PROBE_MS = 5_000;

/** `sd_booted(3)`: this folder exists if systemd runs. */
const SYSTEMD_FOLDER = '/run/systemd/system';
/** One file per user with lingering. */
const LINGER_FOLDER = '/var/lib/systemd/linger';

/** Variables that `systemd-run` needs to find the user's manager, in addition to the variables of any program. */
export const MANAGER_VARIABLES: readonly string[] = ['XDG_RUNTIME_DIR', 'DBUS_SESSION_BUS_ADDRESS'];

export interface SystemdFolders {
  readonly systemd?: string;
  readonly linger?: string;
}

interface ScopeOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly folders?: SystemdFolders;
  readonly probeMs?: number;
}

interface NoScope {
  readonly isThere: false;
  readonly why: string;
}
type ScopeChoice = { readonly isThere: true } | NoScope;

/** Whether the processes of this user outlive the last session. Null: systemd does not run here, so this does not matter. */
export async function isLingering(folders: SystemdFolders = {}): Promise<boolean | null> {
  if (process.platform !== 'linux' || !(await exists(folders.systemd ?? SYSTEMD_FOLDER))) return null;
  const name = userName();
  return name !== null && (await exists(join(folders.linger ?? LINGER_FOLDER, name)));
}

/** Checked each time, because lingering can be enabled at any time; the manager is queried once. */
export async function findUserScope(options: ScopeOptions = {}): Promise<ScopeChoice> {
  const { env = process.env, folders = {}, probeMs = PROBE_MS } = options;
  const lingering = await isLingering(folders);
  if (lingering !== true) {
    return none(lingering === null ? 'systemd does not run here' : 'the user does not linger');
  }
  const manager = managerOf(env);
  const probed = managers.get(manager) ?? probe(env, probeMs);
  managers.set(manager, probed);
  return probed;
}

/** Stops using scopes of this manager, after one has failed. */
export function giveUpScopes(env: NodeJS.ProcessEnv, why: string): NoScope {
  const choice = none(why);
  managers.set(managerOf(env), Promise.resolve(choice));
  return choice;
}

/** Cached, so that a hanging manager delays only one kernel. */
const managers = new Map<string, Promise<ScopeChoice>>();

function managerOf(env: NodeJS.ProcessEnv): string {
  return ['PATH', ...MANAGER_VARIABLES].map(name => env[name]).join('\0');
}

async function probe(env: NodeJS.ProcessEnv, probeMs: number): Promise<ScopeChoice> {
  const [program = '', ...args] = inScope(`tpulab-probe-${randomBytes(4).toString('hex')}`, ['true']);
  try {
    await run(program, args, { env, timeout: probeMs, killSignal: 'SIGKILL' });
    return { isThere: true };
  } catch (error) {
    const { code, killed, message } = error as Error & { code?: unknown; killed?: boolean };
    if (code === 'ENOENT') return none('there is no systemd-run');
    return none(killed === true ? `systemd-run did not answer within ${probeMs} ms` : message.trim());
  }
}

/** A command that runs another one in its own process (same descriptors) in a scope of this name. */
export function inScope(unit: string, command: readonly string[]): readonly string[] {
  return [
    'systemd-run',
    '--user',
    '--scope',
    '--quiet',
    '--collect',
    `--unit=${unit}.scope`,
    '--',
    ...command
  ];
}

/** A new name each time: as long as a kernel runs, the scope of the keeper that started it exists. */
export function unitOf(kernelId: string): string {
  return `tpulab-kernel-${kernelId.replaceAll(/[^\w-]/g, '_')}-${randomBytes(4).toString('hex')}`;
}

/** Null if the user has only a number, as in some containers. */
function userName(): string | null {
  try {
    return userInfo().username;
  } catch {
    return null;
  }
}

function none(why: string): NoScope {
  return { isThere: false, why };
}

function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false
  );
}
