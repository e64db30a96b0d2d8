/** `/api/sessions`. */
import { Type } from '@sinclair/typebox';
import { requireField, type SessionStore, unwrapNotebook } from './session-store.js';
import { SessionModel } from './session.js';
import { failure } from '../http/api-description.js';
import type { App } from '../http/app.js';
import type { BaseUrl } from '../http/base-url.js';

const Nullable = Type.Union([Type.String(), Type.Null()]);

const SessionFields = {
  name: Type.Optional(Nullable),
  path: Type.Optional(Type.String()),
  type: Type.Optional(Type.String()),
  kernel: Type.Optional(
    Type.Union([Type.Object({ id: Type.Optional(Nullable), name: Type.Optional(Nullable) }), Type.Null()])
  ),
  notebook: Type.Optional(
    Type.Object({ path: Type.Optional(Type.String()), name: Type.Optional(Type.String()) })
  )
};

const NewSessionBody = Type.Object({
  ...SessionFields,
  env: Type.Optional(Type.Record(Type.String(), Type.String()))
});

const SessionChangeBody = Type.Object(SessionFields);

const SessionParams = Type.Object({ sessionId: Type.String() });

const NO_SESSION = failure('No session has this id.');
const FAILED = failure('The kernel could not be started or shut down.');
const NO_SPEC = failure('No kernelspec has this name.');

export function addSessionRoutes(app: App, sessions: SessionStore, base: BaseUrl): void {
  app.get(
    '/api/sessions',
    { schema: { summary: 'All sessions', response: { 200: Type.Array(SessionModel) } } },
    async () => sessions.list()
  );

  app.post(
    '/api/sessions',
    {
      schema: {
        summary: 'The session of a path, created if there is none',
        body: NewSessionBody,
        response: {
          201: SessionModel,
          404: failure('No kernel has the chosen id.'),
          409: failure('The kernel id is in use.'),
          500: FAILED,
          501: NO_SPEC
        }
      }
    },
    async (request, reply) => {
      const body = unwrapNotebook(request.body);
      const session = await sessions.create({
        path: requireField(body.path, 'path'),
        type: requireField(body.type, 'type'),
        name: body.name,
        kernel: body.kernel,
        env: body.env
      });
      return reply
        .code(201)
        .header('location', base.full(`/api/sessions/${session.id}`))
        .send(session);
    }
  );

  app.get(
    '/api/sessions/:sessionId',
    {
      schema: {
        summary: 'One session',
        params: SessionParams,
        response: { 200: SessionModel, 404: NO_SESSION }
      }
    },
    async request => sessions.get(request.params.sessionId)
  );

  app.patch(
    '/api/sessions/:sessionId',
    {
      schema: {
        summary: 'Change path, name, type or kernel',
        params: SessionParams,
        body: SessionChangeBody,
        response: { 200: SessionModel, 404: NO_SESSION, 500: FAILED, 501: NO_SPEC }
      }
    },
    async request => {
      const { path, name, type, kernel } = unwrapNotebook(request.body);
      return sessions.change(request.params.sessionId, { path, name, type, kernel });
    }
  );

  app.delete(
    '/api/sessions/:sessionId',
    {
      schema: {
        summary: 'Delete a session and its kernel',
        params: SessionParams,
        response: {
          204: Type.Null({ description: 'It is done.' }),
          404: NO_SESSION,
          410: failure('Its kernel was already shut down.'),
          500: FAILED
        }
      }
    },
    async (request, reply) => {
      await sessions.delete(request.params.sessionId);
      return reply.code(204).send(null);
    }
  );
}
