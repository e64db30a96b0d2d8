/** The OpenAPI document of all routes, generated from their schemas. Answers that any route can give are added here. */
import swagger from '@fastify/swagger';
import { type TSchema, Type } from '@sinclair/typebox';
import { ErrorBody, PROTOCOL_VERSION } from '@tpulab/protocol';
import type { FastifyInstance, FastifySchema } from 'fastify';
import type { RouteAccess } from './access-hooks.js';
import type { BaseUrl } from './base-url.js';

/** For access rules, malformed requests, limits, and unexpected errors. */
const ANY_ROUTE: Readonly<Record<number, string>> = {
  400: 'The request is not valid.',
  403: 'There is no valid token, or the Host or the Origin is not allowed.',
  408: 'The request did not arrive in time.',
  413: 'The body is too large.',
  429: 'Too many requests without a valid token came from this address; see Retry-After.',
  431: 'The headers or the URL are too large.',
  500: 'An unexpected error, or a failing kernel; `code` says which.',
  503: 'The server is still finding its kernels; try again in a moment.'
};

const TAGS: readonly (readonly [prefix: string, name: string])[] = [
  ['/api/kernelspecs', 'kernelspecs'],
  ['/kernelspecs', 'kernelspecs'],
  ['/api/kernels', 'kernels'],
  ['/api/sessions', 'sessions'],
  ['/bridge', 'bridge']
];

/** Describes an error of a route by its meaning for this route. */
export function failure(description: string): typeof ErrorBody {
  return { ...ErrorBody, description };
}

/** Describes an answer whose type is not JSON. */
export function notJson(description: string, mediaType: string): TSchema {
  return Type.Unknown({ description, content: { [mediaType]: { schema: {} } } });
}

interface Taken {
  /** Absent: only for holders of unrestricted tokens. */
  readonly access?: RouteAccess;
  readonly params?: TSchema;
  readonly querystring?: TSchema;
  readonly body?: TSchema;
  readonly description?: string;
  /** `[]`: no token is needed. */
  readonly security?: [];
}

/** Options of a route: its access, its inputs, and its answers by status. */
export function route<const R extends Readonly<Record<number, TSchema>>, const T extends Taken = object>(
  summary: string,
  response: R,
  taken?: T
): {
  config: { access?: RouteAccess };
  schema: { summary: string; response: R } & Omit<T, 'access'>;
} {
  const { access, ...schema } = { ...taken } as T;
  return { config: access === undefined ? {} : { access }, schema: { summary, response, ...schema } };
}

/** Registers the generator of the document; it includes every route that is added afterwards. */
export async function describeApi(app: FastifyInstance, base: BaseUrl): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'TPULab server',
        version: String(PROTOCOL_VERSION),
        description:
          "Jupyter's kernel API (`/api`) and the server's own (`/bridge/v1`). Errors carry a stable `code`; docs/error-codes.md lists them."
      },
      servers: [{ url: base.path }],
      tags: [
        { name: 'general', description: 'The server itself' },
        { name: 'kernelspecs', description: 'Recipes for kernels' },
        { name: 'kernels', description: 'Running kernels' },
        { name: 'sessions', description: "Documents' ties to kernels" },
        { name: 'bridge', description: 'What Jupyter does not have' }
      ],
      components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
      security: [{ token: [] }]
    },
    transform: ({ schema, url, route }) => ({
      url,
      schema: completed(schema as FastifySchema | undefined, url, [route.method].flat()[0] ?? 'GET')
    })
  });
}

function completed(schema: FastifySchema | undefined, url: string, method: string): FastifySchema {
  const own = (schema?.response ?? {}) as Record<number, TSchema>;
  const response: Record<number, unknown> = {};
  for (const [status, description] of Object.entries(ANY_ROUTE))
    response[Number(status)] = failure(description);
  for (const [status, body] of Object.entries(own)) {
    response[Number(status)] = { ...body, description: body.description ?? 'Success' };
  }
  const parts = url.split(/[^A-Za-z0-9]+/).filter(part => part !== '');
  return {
    tags: [TAGS.find(([prefix]) => url.startsWith(prefix))?.[1] ?? 'general'],
    operationId: [method.toLowerCase(), ...parts].join('_'),
    ...schema,
    response
  };
}
