/** The creation of an environment on this machine, followed until it exists. No DOM. */
import type { EnvironmentCreation, EnvironmentInfo } from '@tpulab/protocol';
import { FollowedJob } from '../backends/followed-job.js';
import type { RemotesApi } from '../backends/remotes-api.js';

export class EnvironmentSetup extends FollowedJob<EnvironmentCreation> {
  constructor(
    api: Pick<RemotesApi, 'request'>,
    readonly environment: EnvironmentInfo
  ) {
    super(api, `bridge/v1/environments/${encodeURIComponent(environment.name)}/creation`);
    void this.refresh();
  }
}

/** The environment offered on a machine without one: JAX, unless it exists already or cannot be created. */
export function offeredEnvironment(environments: readonly EnvironmentInfo[]): EnvironmentInfo | null {
  const isThere = environments.some(({ state }) => state === 'ready' || state === 'outdated');
  return isThere ? null : (environments.find(({ name }) => name === 'jax') ?? null);
}
