/** The hosts of a remote, as ssh is to be told of them. The first one runs the gateway. */
import { type CloudReach, reachedBy as machineReachedBy, reachOf, type RemoteSource } from '@tpulab/protocol';
import { InvalidRequestError } from '../kernels/errors.js';
import { type Gcloud } from './gcloud/gcloud.js';
import { findMachine, keyCommand } from './gcloud/machine.js';
import { RemoteProblem } from './remote-error.js';
import { checkDestination, type SshTarget } from './ssh/target.js';

export async function resolveSource(
  source: RemoteSource,
  gcloud: Gcloud,
  signal: AbortSignal
): Promise<readonly [SshTarget, ...SshTarget[]]> {
  const targets =
    source.kind === 'ssh'
      ? [{ destination: checkDestination(source.destination), options: [] }]
      : await findMachine(gcloud, source, signal);
  const [first, ...others] = targets;
  if (!first) throw new RemoteProblem('gcloud_unreadable', 'gcloud named no host.');
  return [first, ...others];
}

/**
 * The same machine, reached in this way; the very same object where that is how it was reached.
 *
 * @throws InvalidRequestError for a host that is no machine of Google Cloud
 */
export function reachedBy(source: RemoteSource, reach: CloudReach): RemoteSource {
  if (source.kind === 'ssh') {
    throw new InvalidRequestError(
      `${source.destination} is reached as your ssh configuration says; an internal address and IAP are for machines of Google Cloud.`
    );
  }
  return reach === reachOf(source) ? source : machineReachedBy(source, reach);
}

/** A key that a cloud machine does not know yet is made known to it by gcloud's own ssh; a person runs that once. */
export function withCloudRemedy(problem: unknown, source: RemoteSource): unknown {
  if (!(problem instanceof RemoteProblem) || problem.code !== 'remote_auth_refused') return problem;
  if (source.kind !== 'gcloud') return problem;
  return new RemoteProblem(
    'remote_auth_refused',
    `${problem.message} The machine may not know your key yet: the command makes it known.`,
    { command: keyCommand(source), cause: problem }
  );
}
