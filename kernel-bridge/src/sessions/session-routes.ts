/** `/api/sessions`. */
import { Type } from '@sinclair/typebox';
import { requireField, SessionModel, type SessionStore, unwrapNotebook } from './session-store.js';
import type { IncomingMessage } from 'node:http';
import { actorOf, may, requireMay, type RouteAccess } from '../http/access-hooks.js';
import type { Action } from '../http/rights.js';
import { failure, route } from '../http/api-description.js';
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

/** The handler itself checks access, because the body or the session names the notebook. */
const LATER: RouteAccess = ['run', () => ({ kind: 'deferred' })];

const NO_SESSION = failure('No session has this id.');
const FAILED = failure('The kernel could not be started or shut down.');
const NO_SPEC = failure('No kernelspec has this name.');

export function addSessionRoutes(app: App, sessions: SessionStore, base: BaseUrl): void {
  app.get(
    '/api/sessions',
    route('All sessions', { 200: Type.Array(SessionModel) }, { access: ['read'] }),
    async ({ raw }) =>
      sessions
        .list()
        .filter(({ path }) => actorOf(raw) === null || may(raw, 'read', { kind: 'notebook', path }))
  );

  app.post(
    '/api/sessions',
    route(
      'The session of a path, created if there is none',
      {
        201: SessionModel,
        404: failure('No kernel has the chosen id.'),
        409: failure('The kernel id is in use.'),
        500: FAILED,
        501: NO_SPEC
      },
      { access: LATER, body: NewSessionBody }
    ),
    async (request, reply) => {
      const body = unwrapNotebook(request.body);
      requireSession(request.raw, 'run', body);
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
    route('One session', { 200: SessionModel, 404: NO_SESSION }, { access: LATER, params: SessionParams }),
    async request => {
      const session = sessions.get(request.params.sessionId);
      requireSession(request.raw, 'run', session);
      return session;
    }
  );

  app.patch(
    '/api/sessions/:sessionId',
    route(
      'Change path, name, type or kernel',
      { 200: SessionModel, 404: NO_SESSION, 500: FAILED, 501: NO_SPEC },
      { access: LATER, params: SessionParams, body: SessionChangeBody }
    ),
    async request => {
      const { path, name, type, kernel } = unwrapNotebook(request.body);
      if (actorOf(request.raw) !== null) {
        requireSession(request.raw, 'steer', sessions.get(request.params.sessionId));
        requireSession(request.raw, 'steer', {
          path: path ?? sessions.get(request.params.sessionId).path,
          kernel
        });
      }
      return sessions.change(request.params.sessionId, { path, name, type, kernel });
    }
  );

  app.delete(
    '/api/sessions/:sessionId',
    route(
      'Delete a session and its kernel',
      {
        204: Type.Null({ description: 'It is done.' }),
        404: NO_SESSION,
        410: failure('Its kernel was already shut down.'),
        500: FAILED
      },
      { access: LATER, params: SessionParams }
    ),
    async (request, reply) => {
      if (actorOf(request.raw) !== null)
        requireSession(request.raw, 'steer', sessions.get(request.params.sessionId));
      await sessions.delete(request.params.sessionId);
      return reply.code(204).send(null);
    }
  );
}

/** The notebook, and its current or future kernel: a session with another notebook's kernel would give access to that. */
function requireSession(
  request: IncomingMessage,
  action: Action,
  {
    path = '',
    kernel
  }: { path?: string | undefined; kernel?: { id?: string | null | undefined } | null | undefined }
): void {
  if (actorOf(request) === null) return;
  requireMay(request, action, { kind: 'notebook', path });
  const id = kernel?.id ?? null;
  if (id !== null) requireMay(request, action, { kind: 'kernel', id });
}
