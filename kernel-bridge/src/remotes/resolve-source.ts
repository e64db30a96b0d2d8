/** The hosts of a remote, as ssh is to be told of them. The first one runs the gateway. */
import type { RemoteSource } from '@tpulab/protocol';
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
