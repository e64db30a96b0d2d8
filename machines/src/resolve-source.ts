/** The hosts of a remote, as targets for ssh. The first one runs the gateway. */
import { type CloudReach, reachedBy as machineReachedBy, reachOf, type RemoteSource } from '@tpulab/protocol';
import { SLICE_ENVIRONMENTS } from './chips/host-only.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import { type Gcloud, grantCommand } from './gcloud/gcloud.js';
import { findMachine, iapRuleCommand, keyCommand } from './gcloud/machine.js';
import { RemoteProblem } from './remote-error.js';
import { checkDestination, type SshTarget } from './ssh/ssh-config.js';

export async function resolveSource(
  source: Exclude<RemoteSource, { kind: 'colab' }>,
  gcloud: Gcloud,
  knownHosts: string,
  signal: AbortSignal
): Promise<readonly [SshTarget, ...SshTarget[]]> {
  const targets =
    source.kind === 'ssh'
      ? [{ destination: checkDestination(source.destination), options: [] }]
      : await findMachine(gcloud, source, knownHosts, signal);
  const [first, ...others] = targets;
  if (!first) throw new RemoteProblem('gcloud_unreadable', 'gcloud named no host.');
  return [first, ...others];
}

/** Whether connecting sets up all hosts of a remote that has several, and offers one kernel over them. */
export function setsUpAllHosts({
  install,
  environment,
  hostOnly
}: {
  readonly install: boolean;
  readonly environment: string;
  readonly hostOnly?: boolean | undefined;
}): boolean {
  return install && Object.values(SLICE_ENVIRONMENTS).includes(environment) && hostOnly !== true;
}

/**
 * A warning for a remote with several hosts; null: none. `jax.devices()` on one host of a slice waits for all the others,
 * which nobody has started (jax-ml/jax#19971). The instances of a group may be a slice or independent: gcloud's list does
 * not distinguish them.
 */
export function sliceWarning(source: RemoteSource, name: string, hosts: number): string | null {
  if (hosts < 2) return null;
  const waits = 'JAX there waits for the others, so the first cell that uses a chip hangs.';
  return source.kind === 'gcloud' && source.product === 'instance-group'
    ? `${name} is a group of ${hosts} instances, and only the first one is connected. If they form a slice, ${waits}`
    : `${name} is a slice of ${hosts} hosts, and only the first one is connected. ${waits}`;
}

/**
 * The same machine with this access path; the same object if the path is unchanged.
 *
 * @throws BridgeError `invalid_request` for a host that is not a machine of Google Cloud
 */
export function reachedBy(source: RemoteSource, reach: CloudReach): RemoteSource {
  if (source.kind === 'colab') {
    throw bridgeError('invalid_request', 'A Colab runtime is reached through the colab command only.');
  }
  if (source.kind === 'ssh') {
    throw bridgeError(
      'invalid_request',
      `${source.destination} is reached as your ssh configuration says; internal addresses and IAP are only for Google Cloud machines.`
    );
  }
  return reach === reachOf(source) ? source : machineReachedBy(source, reach);
}

/** Adds the remedy for an ssh error on a machine of Google Cloud, with the names that the person gave. */
export function withCloudRemedy(problem: unknown, source: RemoteSource): unknown {
  if (!(problem instanceof RemoteProblem) || source.kind !== 'gcloud') return problem;
  const { code, message } = problem;
  switch (code) {
    // gcloud's own ssh adds the key to a machine that does not know it yet; our ssh cannot.
    case 'remote_auth_refused':
      return new RemoteProblem(
        code,
        `${message} A new machine does not know your ssh key yet: let gcloud add it.`,
        {
          command: keyCommand(source),
          ...(source.product === 'instance-group'
            ? {}
            : { action: { label: `Add my ssh key to ${source.name}`, connect: { addKey: true } } }),
          cause: problem
        }
      );
    case 'remote_iap_blocked':
      return new RemoteProblem(code, message, { command: iapRuleCommand(source), cause: problem });
    case 'gcloud_permission':
      if (problem.command !== null) return problem;
      return new RemoteProblem(code, message, {
        command: grantCommand(source.project, 'roles/iap.tunnelResourceAccessor'),
        cause: problem
      });
    default:
      return problem;
  }
}
