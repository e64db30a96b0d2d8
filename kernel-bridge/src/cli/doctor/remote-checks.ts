/** The checks of `tpulab doctor NAME` on a host: over a separate ssh connection, so that they work without a gateway too. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { RemoteCheck, RemoteSource } from '@tpulab/protocol';
import { pino } from 'pino';
import {
  checkRemoteHost,
  ColabAccount,
  colabOnPath,
  failed,
  type Gcloud,
  gcloudOnPath,
  isCloudSilent,
  ok,
  remoteErrorOf,
  RemoteProblem,
  RemoteQueued,
  RemoteStore,
  resolveSource,
  setsUpAllHosts,
  sliceWarning,
  SshMaster,
  SshShell,
  type SshTarget,
  warning,
  withCloudRemedy,
  withNames
} from '@tpulab/machines';
import { codeOf } from '../output.js';
import { sourceOf, type TargetOptions, understood, withZone } from '../remotes/connect-target.js';

interface RemoteTarget extends TargetOptions {
  /** The name of an added remote, or any target of `tpulab connect`. */
  readonly target: string;
  readonly stateDir: string;
  readonly environment: string | undefined;
  readonly sshProgram: string;
  /** If omitted: the gcloud on PATH. */
  readonly gcloud?: Gcloud;
  readonly signal: AbortSignal;
}

const DEFAULT_ENVIRONMENT = 'jax';

/** Never prompts: a question of ssh becomes a failed check whose remedy is the command that answers it. */
export async function checkRemote(wanted: RemoteTarget): Promise<RemoteCheck[]> {
  const { signal, sshProgram: program, gcloud = gcloudOnPath() } = wanted;
  const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  const found: RemoteCheck[] = [];
  try {
    const { source, environment, last, hostOnly } = await find(wanted, gcloud);
    if (source.kind === 'colab') return await checkColab(signal);
    const setsUpAll = setsUpAllHosts({ install: true, environment, hostOnly });
    const targets = await hostsOf({ source, gcloud, last, hostOnly, setsUpAll, folder, signal }, found);
    const [target] = targets;
    if (target === undefined) return found;
    try {
      const controlPath = path.join(folder, 'c');
      const log = (): void => undefined;
      await using _master = await SshMaster.open({
        program,
        target,
        controlPath,
        askpass: null,
        log,
        signal
      });
      found.push(ok('ssh', `${target.destination} accepts the ssh login`));
      const shell = new SshShell({ program, controlPath, host: target.destination });
      return [...found, ...(await checkRemoteHost(shell, { environment, signal }))];
    } catch (error) {
      throw await withNames(withCloudRemedy(error, source), gcloud, signal);
    }
  } catch (error) {
    signal.throwIfAborted();
    const code = codeOf(error);
    if (code === null) throw error;
    return [...found, failed(partOf(code), remoteErrorOf(error).message, remedyOf(error))];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The part of the setup that an error concerns. */
function partOf(code: string): string {
  if (code === 'remote_target_invalid') return 'target';
  return code.startsWith('setup_') || code.startsWith('env_') ? 'what is installed' : 'ssh';
}

async function checkColab(signal: AbortSignal): Promise<RemoteCheck[]> {
  const { state, message, remedy } = await new ColabAccount(colabOnPath()).candidate(signal);
  if (state === 'ok') return [ok('colab', 'the colab command is there and logged in')];
  return [failed('colab', message ?? state, remedy === null ? null : `Run: ${remedy}`)];
}

interface Hosts {
  readonly source: Exclude<RemoteSource, { kind: 'colab' }>;
  readonly gcloud: Gcloud;
  readonly last: readonly SshTarget[];
  readonly hostOnly: boolean;
  /** Whether connecting sets up all hosts of a slice. */
  readonly setsUpAll: boolean;
  readonly folder: string;
  readonly signal: AbortSignal;
}

/** The hosts as Google Cloud reports them; if it cannot be queried, the targets of the last login. */
async function hostsOf(
  { source, gcloud, last, hostOnly, setsUpAll, folder, signal }: Hosts,
  found: RemoteCheck[]
): Promise<readonly SshTarget[]> {
  const name = 'Google Cloud';
  try {
    const targets = await resolveSource(source, gcloud, path.join(folder, 'known_hosts'), signal);
    if (source.kind === 'gcloud') found.push(ok(name, `${source.name} is ready`));
    const slice = source.kind === 'gcloud' ? sliceWarning(source, source.name, targets.length) : null;
    if (slice !== null && setsUpAll)
      found.push(
        ok('slice', `${targets.length} hosts; connecting sets up all and offers one kernel over them`)
      );
    else if (slice !== null && !hostOnly)
      found.push(warning('slice', slice, "Connect with --host-only to use the first host's chips alone."));
    return targets;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof RemoteProblem) || source.kind !== 'gcloud') throw error;
    if (error instanceof RemoteQueued) {
      const since =
        error.queue.since === null ? '' : ` Since ${new Date(error.queue.since).toLocaleString()}.`;
      const remedy = 'Connect now: TPULab waits and connects as soon as the machine is ready.';
      found.push(warning(name, `${error.message}${since}`, remedy));
      return [];
    }
    found.push(failed(name, error.message, remedyOf(error)));
    return isCloudSilent(error) ? last : [];
  }
}

/** Replaces an action of the gateway by the option of `tpulab connect` that does the same. */
function remedyOf(error: unknown): string | null {
  const { code, command, action } = remoteErrorOf(error);
  if (command !== null) return `Run: ${command}`;
  if (action?.connect.reach === 'iap') return 'Connect with --iap.';
  if (code === 'gcloud_offline') return 'Connect this computer to the network.';
  return null;
}

async function find(
  wanted: RemoteTarget,
  gcloud: Gcloud
): Promise<{ source: RemoteSource; environment: string; last: readonly SshTarget[]; hostOnly: boolean }> {
  const { stateDir, environment, signal } = wanted;
  const { target, options } = understood(wanted.target, wanted);
  const remotes = await new RemoteStore(stateDir, pino({ level: 'silent' })).load();
  const remote = remotes.find(({ name }) => name === target);
  return {
    source: remote?.source ?? sourceOf(target, await withZone(target, options, gcloud, signal)),
    environment: environment ?? remote?.environment ?? DEFAULT_ENVIRONMENT,
    last: remote?.targets ?? [],
    hostOnly: remote?.hostOnly ?? false
  };
}
