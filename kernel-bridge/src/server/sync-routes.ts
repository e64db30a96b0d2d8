/** Folders that are made the same here and on a remote, under `/bridge/v1/remotes/NAME/sync`. */
import { Type } from '@sinclair/typebox';
import { RemoteName, SyncPlan, SyncRequest, SyncStatus } from '@tpulab/protocol';
import { RemoteActionError } from '../kernels/errors.js';
import type { Remotes } from '../remotes/index.js';
import type { SyncJobs } from '../remotes/sync/index.js';
import { failure } from './api-description.js';
import type { App } from './app.js';

const Params = Type.Object({ name: RemoteName });
const UNKNOWN = failure('There is no remote of this name.');

export function addSyncRoutes(app: App, remotes: Remotes, jobs: SyncJobs): void {
  app.post(
    '/bridge/v1/remotes/:name/sync',
    {
      schema: {
        summary: 'Makes a folder here and one on the remote the same; a dry run says what would happen',
        params: Params,
        body: SyncRequest,
        response: { 200: SyncPlan, 202: SyncStatus, 404: UNKNOWN }
      }
    },
    async (request, reply) => {
      const remote = remotes.get(request.params.name);
      try {
        if (request.body.dryRun !== true) {
          return await reply.code(202).send(await jobs.start(remote, request.body));
        }
        const gone = new AbortController();
        reply.raw.once('close', () => gone.abort(new Error('the client has gone')));
        return await reply.code(200).send(await jobs.plan(remote, request.body, gone.signal));
      } catch (error) {
        throw new RemoteActionError(error instanceof Error ? error.message : String(error), { cause: error });
      }
    }
  );

  app.get(
    '/bridge/v1/remotes/:name/sync',
    {
      schema: {
        summary: 'How the present or the last run goes',
        params: Params,
        response: { 200: SyncStatus, 404: UNKNOWN }
      }
    },
    async request => jobs.status(remotes.get(request.params.name).name)
  );

  app.delete(
    '/bridge/v1/remotes/:name/sync',
    {
      schema: {
        summary: 'Ends the present run; what was copied stays',
        params: Params,
        response: { 200: SyncStatus, 404: UNKNOWN }
      }
    },
    async request => {
      const { name } = remotes.get(request.params.name);
      await jobs.cancel(name);
      return jobs.status(name);
    }
  );
}
