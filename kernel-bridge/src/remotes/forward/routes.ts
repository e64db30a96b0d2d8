/**
 * `/machines/NAME/…`: the whole gateway of a remote, as if it were local. Access was checked before (`access-hooks.ts`); from
 * here on the forwarder handles the request.
 */
import { Type } from '@sinclair/typebox';
import { RemoteName, RequestedAnswer, RequestedQuestion } from '@tpulab/protocol';
import type { FastifyReply } from 'fastify';
import type { BridgeError } from '@tpulab/platform/errors.js';
import type { Forwarder } from '../index.js';
import type { App } from '../../http/app.js';
import type { Resource } from '../../http/rights.js';
import { errorBody, errorHeaders } from '../../http/error-answers.js';
import type { RequestedExecutions } from './requested-executions.js';
import type { RelayRoute } from '../../http/upgrades.js';
import { route } from '../../http/api-description.js';

/** For an answer that a browser opens as a page: it gets an opaque origin and keeps its declared type. */
const GUEST_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': "sandbox; default-src 'none'; frame-ancestors 'self'",
  'x-content-type-options': 'nosniff'
};
/** The methods that a gateway has; TRACE and CONNECT are never allowed. */
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
/**
 * Refused for a token that is restricted to notebooks or kernels of this machine: their counterparts on the remote are
 * unknown here.
 */
function remoteIn(params: Readonly<Record<string, string>>): Resource {
  return { kind: 'remote', name: params['name'] ?? '' };
}

export const FORWARDED_PATH = '/machines/:name/*';

export async function addForwardingRoutes(app: App, forwarder: Forwarder): Promise<void> {
  await app.register(async scope => {
    // The body is not parsed here: it streams.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _body, done) => done(null));
    scope.route({
      method: METHODS,
      url: FORWARDED_PATH,
      exposeHeadRoute: false,
      // On the remote, the request has the rights of this gateway.
      config: { access: ['spend', remoteIn] },
      schema: {
        hide: true,
        summary: "The server of a machine: everything that it serves, with this server's token",
        response: { 200: Type.Unknown() }
      },
      handler: (request, reply) => {
        const { name, target } = split(request.raw.url ?? '');
        const headers = accessHeaders(reply);
        forwarder.request(name, request.raw, reply.raw, {
          target,
          headers,
          fail: error => answer(reply, error, headers)
        });
        reply.hijack();
      }
    });
  });
}

/** Lists the executions that were requested through this gateway: the remote's own report is not trusted. */
export function addRequestedRoute(app: App, requested: RequestedExecutions): void {
  app.post(
    '/bridge/v1/machines/:name/requested',
    route(
      'Which executions on a machine were requested through this server',
      { 200: RequestedAnswer },
      { params: Type.Object({ name: RemoteName }), body: RequestedQuestion }
    ),
    async ({ params, body }): Promise<RequestedAnswer> => ({
      requested: await requested.among(params.name, body.kernelId, body.executions)
    })
  );
}

export function forwardedSockets(forwarder: Forwarder): RelayRoute {
  return {
    path: FORWARDED_PATH,
    matches: path => /^\/machines\/[^/]+\/./.test(path),
    access: path => ['spend', () => remoteIn({ name: path.split('/')[2] ?? '' })],
    open: (request, signal) => {
      const { name, target } = split(request.url ?? '');
      return forwarder.upgrade(name, request, target, signal);
    }
  };
}

/** Splits the URL as written: nothing in the rest of the path is decoded or resolved here. */
function split(url: string): { name: string; target: string } {
  const [, name = '', target = '/'] = /^\/machines\/([^/?]+)(\/.*)?$/.exec(url) ?? [];
  return { name, target };
}

/** The access headers of every answer, and the headers for answers of a remote. */
function accessHeaders(reply: FastifyReply): Record<string, string> {
  const access = Object.entries(reply.getHeaders())
    .filter(([name]) => name.startsWith('access-control-') || name === 'vary')
    .map(([name, value]) => [name, String(value)] as const);
  return { ...Object.fromEntries(access), ...GUEST_HEADERS };
}

/** Answers by hand, because the framework no longer owns the reply. */
function answer(reply: FastifyReply, error: BridgeError, headers: Record<string, string>): void {
  const { raw } = reply;
  if (raw.headersSent || raw.destroyed) {
    raw.destroy();
    return;
  }
  const body = JSON.stringify(errorBody(error));
  raw.writeHead(error.status, {
    ...headers,
    ...errorHeaders(error),
    'cache-control': 'no-store',
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    // The rest of the client's request is not read.
    connection: 'close'
  });
  raw.end(body);
}
