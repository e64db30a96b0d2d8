/** Remotes under `/bridge/v1/remotes`: which there are, connecting them, and answering what ssh asks. */
import { Type } from '@sinclair/typebox';
import {
  AddRemote,
  AnswerPrompt,
  ConnectRemote,
  Remote as RemoteSchema,
  CandidatesQuery,
  RemoteCandidates,
  RemoteList,
  RemoteLogPage,
  RemoteName
} from '@tpulab/protocol';
import { BridgeError, RemoteActionError, RemotePromptGoneError } from '../kernels/errors.js';
import type { Remotes } from '../remotes/index.js';
import { failure } from './api-description.js';
import type { App } from './app.js';

const Params = Type.Object({ name: RemoteName });
const UNKNOWN = failure('There is no remote of this name.');
const Nothing = Type.Null({ description: 'done' });
/** Everything that was installed on a machine is removed: many files, perhaps on a slow disk. */
const CLEAN_MS = 10 * 60_000;

export function addRemotesRoutes(app: App, remotes: Remotes): void {
  app.get(
    '/bridge/v1/remotes',
    { schema: { summary: 'The remotes and how they are', response: { 200: RemoteList } } },
    async () => ({ remotes: remotes.list().map(remote => remote.view()) })
  );

  app.post(
    '/bridge/v1/remotes',
    {
      schema: {
        summary: 'Adds a remote, and connects it unless told otherwise',
        body: AddRemote,
        response: { 201: RemoteSchema, 409: failure('There is a remote of this name.') }
      }
    },
    async (request, reply) => reply.code(201).send(remotes.add(request.body).view())
  );

  app.get(
    '/bridge/v1/remotes/candidates',
    {
      schema: {
        summary: "What a person may want to connect to: ssh hosts, and a project's machines",
        querystring: CandidatesQuery,
        response: { 200: RemoteCandidates }
      }
    },
    async (request, reply) => {
      const gone = new AbortController();
      reply.raw.once('close', () => gone.abort());
      return remotes.candidates(gone.signal, request.query.project);
    }
  );

  app.get(
    '/bridge/v1/remotes/:name',
    { schema: { summary: 'One remote', params: Params, response: { 200: RemoteSchema, 404: UNKNOWN } } },
    async request => remotes.get(request.params.name).view()
  );

  app.delete(
    '/bridge/v1/remotes/:name',
    {
      schema: {
        summary: 'Disconnects and forgets a remote; what runs there goes on, what is installed there stays',
        params: Params,
        response: { 204: Nothing, 404: UNKNOWN }
      }
    },
    async (request, reply) => {
      await remotes.remove(request.params.name);
      return reply.code(204).send(null);
    }
  );

  app.post(
    '/bridge/v1/remotes/:name/connect',
    {
      schema: {
        summary: 'Connects, or tries again at once; how it goes is in its state',
        params: Params,
        body: Type.Optional(Type.Union([ConnectRemote, Type.Null()])),
        response: { 200: RemoteSchema, 404: UNKNOWN }
      }
    },
    async request => {
      const remote = remotes.get(request.params.name);
      remote.connect(request.body ?? {});
      return remote.view();
    }
  );

  app.post(
    '/bridge/v1/remotes/:name/disconnect',
    {
      schema: {
        summary: 'Ends the connection; what runs there goes on',
        params: Params,
        response: { 200: RemoteSchema, 404: UNKNOWN }
      }
    },
    async request => {
      const remote = remotes.get(request.params.name);
      await remote.disconnect();
      return remote.view();
    }
  );

  app.post(
    '/bridge/v1/remotes/:name/answer',
    {
      schema: {
        summary: 'Answers what ssh asks; false declines',
        params: Params,
        body: AnswerPrompt,
        response: { 200: RemoteSchema, 404: UNKNOWN, 409: failure('Nothing waits for this answer.') }
      }
    },
    async request => {
      const remote = remotes.get(request.params.name);
      const { id, value } = request.body;
      if (!remote.prompts.answer(id, value)) throw new RemotePromptGoneError(remote.name);
      return remote.view();
    }
  );

  app.post(
    '/bridge/v1/remotes/:name/clean',
    {
      schema: {
        summary: 'Ends what runs on a remote and removes all that was installed there',
        params: Params,
        response: { 200: RemoteSchema, 404: UNKNOWN }
      }
    },
    async request => {
      const { name } = request.params;
      try {
        await remotes.clean(name, AbortSignal.timeout(CLEAN_MS));
      } catch (error) {
        if (error instanceof BridgeError) throw error;
        throw new RemoteActionError(error instanceof Error ? error.message : String(error), { cause: error });
      }
      return remotes.get(name).view();
    }
  );

  app.get(
    '/bridge/v1/remotes/:name/log',
    {
      schema: {
        summary: 'What happened to a remote, oldest first',
        params: Params,
        response: { 200: RemoteLogPage, 404: UNKNOWN }
      }
    },
    async request => ({ lines: [...remotes.get(request.params.name).log.lines()] })
  );
}
