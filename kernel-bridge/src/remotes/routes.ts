/** Remotes under `/bridge/v1/machines`: lists them, connects them, and answers the prompts of ssh. */
import { Type } from '@sinclair/typebox';
import {
  AddRemote,
  AnswerPrompt,
  CandidatesQuery,
  ConnectRemote,
  DisconnectRemote,
  Remote as RemoteSchema,
  RemoteCandidates,
  RemoteList,
  RemoteLogPage,
  RemoteName,
  RemoteSsh,
  SyncPlan,
  SyncRequest,
  SyncStatus
} from '@tpulab/protocol';
import { BridgeError, bridgeError } from '@tpulab/platform/errors.js';
import type { Remotes } from '@tpulab/machines';
import { failure, route } from '../http/api-description.js';
import type { App } from '../http/app.js';
import type { SyncJobs } from '@tpulab/machines';

const Params = Type.Object({ name: RemoteName });
const UNKNOWN = failure('There is no machine of this name.');
const Nothing = Type.Null({ description: 'done' });
/** Removes the whole installation of a machine: many files, perhaps on a slow disk. */
const CLEAN_MS = 10 * 60_000;
/** gcloud is queried twice. */
const ZONE_MS = 90_000;
/** `colab` queries its server several times, and once a day the package index. */
const STOP_MS = 3 * 60_000;

/** An action on a remote; the caller receives the reason for a failure. */
async function acting(act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (error instanceof BridgeError) throw error;
    throw bridgeError('remote_action_failed', error instanceof Error ? error.message : String(error), error);
  }
}

export function addRemotesRoutes(app: App, remotes: Remotes): void {
  app.get(
    '/bridge/v1/machines',
    route('The machines and their states', { 200: RemoteList }, { access: ['read'] }),
    async () => ({ remotes: remotes.list().map(remote => remote.view()) })
  );

  app.post(
    '/bridge/v1/machines',
    route(
      'Adds a machine and, by default, connects it',
      { 201: RemoteSchema, 409: failure('There is a machine of this name.') },
      { body: AddRemote }
    ),
    async (request, reply) => {
      const body = await remotes.place(request.body, AbortSignal.timeout(ZONE_MS));
      return reply.code(201).send(remotes.add(body).view());
    }
  );

  app.get(
    '/bridge/v1/machines/candidates',
    route(
      "Possible targets: ssh hosts, and a project's machines",
      { 200: RemoteCandidates },
      { querystring: CandidatesQuery }
    ),
    async (request, reply) => {
      const closed = new AbortController();
      reply.raw.once('close', () => closed.abort());
      return remotes.candidates(closed.signal, request.query.project);
    }
  );

  app.get(
    '/bridge/v1/machines/:name',
    route('One machine', { 200: RemoteSchema, 404: UNKNOWN }, { params: Params }),
    async request => remotes.get(request.params.name).view()
  );

  app.delete(
    '/bridge/v1/machines/:name',
    route(
      'Disconnects and forgets a machine; its kernels keep running and TPULab stays installed',
      { 204: Nothing, 404: UNKNOWN },
      { params: Params }
    ),
    async (request, reply) => {
      await remotes.remove(request.params.name);
      return reply.code(204).send(null);
    }
  );

  app.post(
    '/bridge/v1/machines/:name/connect',
    route(
      'Connects, or retries at once; the state of the machine shows the progress',
      { 200: RemoteSchema, 404: UNKNOWN },
      { params: Params, body: Type.Optional(Type.Union([ConnectRemote, Type.Null()])) }
    ),
    async request => {
      const remote = remotes.get(request.params.name);
      remote.connect(request.body ?? {});
      return remote.view();
    }
  );

  app.post(
    '/bridge/v1/machines/:name/disconnect',
    route(
      'Ends the connection; kernels keep running, unless a Colab runtime is ended',
      { 200: RemoteSchema, 404: UNKNOWN },
      { params: Params, body: Type.Optional(Type.Union([DisconnectRemote, Type.Null()])) }
    ),
    async request => {
      const remote = remotes.get(request.params.name);
      if (request.body?.stop === true) await acting(() => remote.stop(AbortSignal.timeout(STOP_MS)));
      else await remote.disconnect();
      return remote.view();
    }
  );

  app.post(
    '/bridge/v1/machines/:name/answer',
    route(
      'Answers a prompt of ssh; false declines',
      { 200: RemoteSchema, 404: UNKNOWN, 409: failure('No prompt is waiting for this answer.') },
      { params: Params, body: AnswerPrompt }
    ),
    async request => {
      const remote = remotes.get(request.params.name);
      const { id, value } = request.body;
      if (!remote.prompts.answer(id, value)) throw bridgeError('remote_prompt_gone', remote.name);
      return remote.view();
    }
  );

  app.post(
    '/bridge/v1/machines/:name/clean',
    route(
      'Ends the kernels on a machine and uninstalls TPULab there',
      { 200: RemoteSchema, 404: UNKNOWN },
      { params: Params }
    ),
    async request => {
      const { name } = request.params;
      await acting(() => remotes.clean(name, AbortSignal.timeout(CLEAN_MS)));
      return remotes.get(name).view();
    }
  );

  app.get(
    '/bridge/v1/machines/:name/ssh',
    route(
      'How programs of this user on this machine reach a machine over the open connection',
      { 200: RemoteSsh, 404: UNKNOWN, 503: failure('It is not connected now.') },
      { params: Params }
    ),
    async request => {
      const remote = remotes.get(request.params.name);
      if (!remote.ssh) throw bridgeError('remote_unavailable', remote.name, remote.unreachableReason());
      return remote.ssh;
    }
  );

  app.get(
    '/bridge/v1/machines/:name/log',
    route('Log of a machine, oldest entry first', { 200: RemoteLogPage, 404: UNKNOWN }, { params: Params }),
    async request => ({ lines: [...remotes.get(request.params.name).log.lines()] })
  );
}

/** Copies a local folder to a remote, or a remote folder here, under `/bridge/v1/machines/NAME/sync`. */
export function addSyncRoutes(app: App, remotes: Remotes, jobs: SyncJobs): void {
  app.post(
    '/bridge/v1/machines/:name/sync',
    route(
      'Copies a folder to or from the machine; a dry run shows what would happen',
      { 200: SyncPlan, 202: SyncStatus, 404: UNKNOWN },
      { params: Params, body: SyncRequest }
    ),
    async (request, reply) => {
      const remote = remotes.get(request.params.name);
      try {
        if (request.body.dryRun !== true) {
          return await reply.code(202).send(await jobs.start(remote, request.body));
        }
        const closed = new AbortController();
        reply.raw.once('close', () => closed.abort(new Error('the client has disconnected')));
        return await reply.code(200).send(await jobs.plan(remote, request.body, closed.signal));
      } catch (error) {
        throw bridgeError(
          'remote_action_failed',
          error instanceof Error ? error.message : String(error),
          error
        );
      }
    }
  );

  app.get(
    '/bridge/v1/machines/:name/sync',
    route('State of the current or last run', { 200: SyncStatus, 404: UNKNOWN }, { params: Params }),
    async request => jobs.status(remotes.get(request.params.name).name)
  );

  app.delete(
    '/bridge/v1/machines/:name/sync',
    route('Ends the current run; copied files stay', { 200: SyncStatus, 404: UNKNOWN }, { params: Params }),
    async request => {
      const { name } = remotes.get(request.params.name);
      await jobs.cancel(name);
      return jobs.status(name);
    }
  );
}
