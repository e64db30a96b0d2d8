/** Opens the connection of a remote: finds its hosts, passes on the prompts of ssh, and explains a failure. */
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { RemoteCheck } from '@tpulab/protocol';
import type { Logger } from 'pino';
import type { ColabRuntime } from './colab/colab-runtime.js';
import { type Gcloud, withNames } from './gcloud/gcloud.js';
import { addKey } from './gcloud/machine.js';
import { type HostSetup, type Machine, type ReachableRemote, type RemoteShell, staged } from './machine.js';
import type { NetworkWatch } from './network-watch.js';
import type { Prompts } from './prompts.js';
import { isCloudSilent, type RemoteErrorCode, RemoteProblem } from './remote-error.js';
import type { RemoteLog, RemotePhase, RemoteReport } from './remote-report.js';
import type { RemoteRecord } from './remote-store.js';
import { resolveSource, setsUpAllHosts, sliceWarning, withCloudRemedy } from './resolve-source.js';
import type { Askpass } from './ssh/askpass.js';
import { commandFor, type SshTarget } from './ssh/ssh-config.js';
import { SshMachine } from './ssh-machine.js';

export type Targets = readonly [SshTarget, ...SshTarget[]];

interface OpenedMachine {
  readonly machine: Machine;
  readonly targets: Targets;
}

/** @param previous hosts of a connection that was just lost, if they may be reused */
export type OpenMachine = (
  remote: ConnectionOwner,
  previous: Targets | null,
  signal: AbortSignal
) => Promise<OpenedMachine>;

export interface ConnectionContext {
  /** Opens the connection to a machine. */
  readonly open: OpenMachine;
  readonly sshProgram: string;
  /** Folder for sockets, private to this user and with a short path, and the program that answers the prompts of ssh. */
  readonly place: () => Promise<{ readonly runDir: string; readonly askpass: Askpass }>;
  readonly logDir: string;
  readonly gcloud: Gcloud;
  /** Installs missing parts on the host. */
  readonly setup: HostSetup;
  /** Uses the existing installation on the host. */
  readonly installed: HostSetup;
  readonly network: NetworkWatch;
  /** Interval between two checks of a machine that the cloud has not provisioned yet. */
  readonly queuePollMs: number;
  readonly log: Logger;
}

/** The owner of a connection: its wanted state, and callbacks for progress. */
export interface ConnectionOwner {
  readonly name: string;
  readonly record: RemoteRecord;
  readonly context: ConnectionContext;
  readonly log: Pick<RemoteLog, 'add' | 'hide'>;
  readonly report: RemoteReport;
  readonly phase: RemotePhase;
  readonly prompts: Prompts;
  /** null: the source is not Colab. */
  readonly colab: ColabRuntime | null;
  /** Whether a person confirmed that our gateway replaces a gateway of another build. */
  readonly takesOver: boolean;
  /** Whether gcloud must add the key before the next login; true once for each request of a person. */
  consumeKeyRequest(): boolean;
  beginAttempt(): void;
  move(phase: RemotePhase): void;
  change(fields: Partial<Pick<RemoteRecord, 'lastConnectedAt' | 'added'>>): void;
  /** Called with the addresses of the hosts. */
  located(hosts: readonly string[]): void;
  /** Called after ssh has logged in to the first host. */
  loggedIn(targets: Targets): void;
  /** Called with the address of the gateway; null if it is no longer reachable. */
  reach(found: ReachableRemote | null): void;
}

/** Errors that another machine at the old address can also cause. */
const ADDRESS_MAY_BE_STALE: ReadonlySet<RemoteErrorCode> = new Set([
  'remote_host_key_changed',
  'remote_host_key_unknown',
  'remote_auth_refused'
]);

/** Opens the connection by ssh, to the source of the remote. */
export const openMachine: OpenMachine = async (remote, previous, signal) => {
  const { source } = remote.record;
  if (source.kind === 'colab') return openColab(remote, previous, signal);
  try {
    return await openHost(remote, source, previous, signal);
  } catch (error) {
    throw await withNames(error, remote.context.gcloud, signal);
  }
};

async function openHost(
  remote: ConnectionOwner,
  source: Parameters<typeof resolveSource>[0],
  previous: Targets | null,
  signal: AbortSignal
): Promise<OpenedMachine> {
  try {
    if (remote.consumeKeyRequest()) await addHostKey(remote, signal);
    else if (previous !== null) return await logIn(remote, previous, signal);
  } catch (error) {
    const isElsewhere = source.kind === 'gcloud' && hasCode(error, ADDRESS_MAY_BE_STALE);
    if (previous === null || !isElsewhere || remote.prompts.wasRefused) throw withCloudRemedy(error, source);
    remote.log.add(
      'another machine answers at the last known address; asking Google Cloud for the current one'
    );
  }
  let silence: RemoteProblem | null = null;
  let targets: Targets;
  try {
    targets = await resolveTargets(remote, source, signal, previous !== null);
  } catch (error) {
    const last = lastTargets(remote);
    if (last === null || !isCloudSilent(error)) throw error;
    remote.log.add(`${error.message} Trying the last known address.`);
    [silence, targets] = [error, last];
  }
  try {
    return await logIn(remote, targets, signal);
  } catch (error) {
    if (silence === null || signal.aborted || remote.prompts.wasRefused) throw withCloudRemedy(error, source);
    // The ssh error may be about another machine. Only a missing permission will not return after a wait.
    throw new RemoteProblem(
      silence.code,
      `${silence.message} The last known address of ${remote.name} does not answer either.`,
      {
        command: silence.command ?? undefined,
        recovery: silence.code === 'gcloud_permission' ? 'person' : 'again',
        cause: error
      }
    );
  }
}

function hasCode(error: unknown, codes: ReadonlySet<RemoteErrorCode>): boolean {
  return error instanceof RemoteProblem && codes.has(error.code);
}

function lastTargets({ record }: ConnectionOwner): Targets | null {
  const [first, ...others] = record.targets ?? [];
  return first === undefined ? null : [first, ...others];
}

async function addHostKey(remote: ConnectionOwner, signal: AbortSignal): Promise<void> {
  const { source } = remote.record;
  if (source.kind !== 'gcloud') return;
  await staged(stageOf(remote, signal), 'key', 'Your ssh key', () =>
    addKey(remote.context.gcloud, source, signal)
  );
}

/** The current hosts, with the keys that Google Cloud currently reports. */
export async function refreshAddress(remote: ConnectionOwner, signal: AbortSignal): Promise<Targets | null> {
  const { source } = remote.record;
  return source.kind === 'gcloud' ? resolveTargets(remote, source, signal, true) : null;
}

/** @param forgetsAddress a machine may have been recreated under the same number, and then has other keys */
async function resolveTargets(
  remote: ConnectionOwner,
  source: Parameters<typeof resolveSource>[0],
  signal: AbortSignal,
  forgetsAddress: boolean
): Promise<Targets> {
  const knownHosts = path.join(remote.context.logDir, `${remote.name}.known_hosts`);
  if (forgetsAddress) await rm(knownHosts, { force: true });
  const resolve = (): Promise<Targets> => resolveSource(source, remote.context.gcloud, knownHosts, signal);
  const targets =
    source.kind === 'gcloud'
      ? await staged(stageOf(remote, signal), 'gcloud', 'Google Cloud', resolve)
      : await resolve();
  remote.located(targets.map(({ destination }) => destination));
  return targets;
}

async function logIn(remote: ConnectionOwner, targets: Targets, signal: AbortSignal): Promise<OpenedMachine> {
  const [target] = targets;
  remote.log.add(commandFor(target));
  const { askpass, runDir } = await remote.context.place();
  using asking = askpass.register(remote.prompts.ask);
  const id = idOf(remote);
  const open = (): Promise<Machine> =>
    SshMachine.open({
      program: remote.context.sshProgram,
      target,
      controlPath: path.join(runDir, `${id}.c`),
      socketPath: path.join(runDir, `${id}.s`),
      askpass: asking.env,
      log: line => remote.log.add(line),
      signal
    });
  try {
    const machine = await staged(stageOf(remote, signal), 'ssh', 'SSH', open);
    remote.loggedIn(targets);
    const warning = sliceWarning(remote.record.source, remote.name, targets.length);
    const isNew = remote.record.hostOnly !== true && !setsUpAllHosts(remote.record);
    if (warning !== null && isNew) remote.report.check(sliceCheck(warning));
    return { machine, targets };
  } catch (error) {
    throw remote.prompts.wasRefused && !remote.colab ? unanswered(target) : error;
  }
}

/**
 * Logs in to another host of the same remote, while `use` runs. Nobody is prompted.
 *
 * @param index from 1
 */
export async function withOtherHost<T>(
  remote: ConnectionOwner,
  target: SshTarget,
  index: number,
  signal: AbortSignal,
  use: (shell: RemoteShell) => Promise<T>
): Promise<T> {
  const { askpass, runDir } = await remote.context.place();
  using repeating = askpass.register(remote.prompts.repeat);
  await using machine = await SshMachine.open({
    program: remote.context.sshProgram,
    target,
    controlPath: path.join(runDir, `${idOf(remote)}-${index}.c`),
    socketPath: path.join(runDir, `${idOf(remote)}-${index}.s`),
    askpass: repeating.env,
    log: line => remote.log.add(`host ${index}: ${line}`),
    signal
  });
  return await use(machine.shell);
}

/** Short, and the same at each attempt, so that files of a killed gateway are found. */
function idOf({ name }: ConnectionOwner): string {
  return createHash('sha256').update(name).digest('hex').slice(0, 10);
}

function stageOf({ report }: ConnectionOwner, signal: AbortSignal): Parameters<typeof staged>[0] {
  return { onStage: stage => report.stage(stage), signal };
}

function sliceCheck(message: string): RemoteCheck {
  return {
    name: 'slice',
    state: 'warning',
    message,
    remedy: "Use this host's chips only, or start JAX on every host yourself.",
    action: { label: "Use this host's chips only", connect: { hostOnly: true } }
  };
}

async function openColab(
  remote: ConnectionOwner,
  previous: Targets | null,
  signal: AbortSignal
): Promise<OpenedMachine> {
  let targets = previous;
  try {
    // Checked every time: otherwise an expired login would only appear as an error of ssh, in ssh's own words.
    targets = [await reachColab(remote, signal)];
    remote.located(targets.map(({ destination }) => destination));
    return await logIn(remote, targets, signal);
  } catch (error) {
    if (!remote.colab || targets === null || !(error instanceof RemoteProblem)) throw error;
    throw await remote.colab.explain(error, signal);
  }
}

async function reachColab(remote: ConnectionOwner, signal: AbortSignal): Promise<SshTarget> {
  if (!remote.colab) throw new TypeError(`${remote.name} is not a Colab runtime`);
  return remote.colab.reach({
    onStage: stage => remote.report.stage(stage),
    onCheck: check => remote.report.check(check),
    ask: consent => remote.prompts.agree(consent, signal),
    signal
  });
}

function unanswered(target: SshTarget | undefined): RemoteProblem {
  return new RemoteProblem(
    'remote_question_unanswered',
    'A prompt of ssh was not answered, so it did not log in. Connect again to get a new prompt, or log in once in a terminal.',
    target ? { command: commandFor(target) } : {}
  );
}
