/** The HTTP server without routes: body parsing, validation, access rules, errors, API description, access log. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type TypeBoxTypeProvider, TypeBoxValidatorCompiler } from '@fastify/type-provider-typebox';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  LogController,
  type RawServerDefault
} from 'fastify';
import type { Logger } from 'pino';
import { type AccessRules, addAccessHooks, refusal } from './access-hooks.js';
import { describeApi } from './api-description.js';
import { pathOf } from './authentication.js';
import type { BaseUrl } from './base-url.js';
import { addErrorAnswers, errorBody, errorHeaders, type RouteEntry } from './error-answers.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import { limitUnauthenticated, clientErrorHandler, type HttpLimits, serverOptions } from './http-limits.js';

export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

interface AppOptions {
  readonly rules: AccessRules;
  readonly log: Logger;
  readonly base: BaseUrl;
  readonly bodyLimitBytes: number;
  readonly http: HttpLimits;
}

/** The result includes all registered routes, so that a test can try each of them. */
export async function createApp(options: AppOptions): Promise<{ app: App; routes: readonly RouteEntry[] }> {
  const { rules, log, base, bodyLimitBytes, http } = options;
  const routes: RouteEntry[] = [];
  const asking = new WeakMap<Socket, IncomingHttpHeaders>();
  // Declared as Fastify's general type; otherwise the app's type would depend on pino's.
  const logger: FastifyBaseLogger = log;
  const app: App = Fastify({
    loggerInstance: logger,
    // Fastify would log whole URLs, which may contain a token.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: bodyLimitBytes,
    requestTimeout: http.requestTimeoutMs,
    http: serverOptions(http),
    clientErrorHandler: clientErrorHandler({
      limits: http,
      origins: rules.origins,
      headersOf: socket => asking.get(socket),
      log
    }),
    rewriteUrl: request => base.inner(request.url ?? ''),
    // A name that is too long is invalid: 404 after the token was checked, not a special answer before.
    routerOptions: { maxParamLength: 1024 },
    // A URL that cannot be decoded is answered before any hook runs, so the rules are applied here.
    frameworkErrors: (_error, request, reply) => {
      const error =
        refusal(request.raw, rules) ??
        bridgeError('invalid_request', 'The path of this request is not a valid URL.');
      // The types of a reply without a route allow no status code.
      const plain = reply as unknown as FastifyReply;
      void plain
        .code(error.status)
        .headers({
          ...rules.origins.corsHeaders(request.headers),
          ...errorHeaders(error),
          'cache-control': 'no-store'
        })
        .send(errorBody(error));
    }
  }).withTypeProvider<TypeBoxTypeProvider>();
  app.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat()) routes.push({ method: one, url });
  });
  app.setValidatorCompiler(validatorCompiler);
  // Answers are built from typed values; the schemas only describe them for openapi.json.
  app.setSerializerCompiler(() => value => JSON.stringify(value));
  acceptJson(app);
  app.addHook('onRequest', async ({ raw }) => void asking.set(raw.socket, raw.headers));
  addAnswerHeaders(app, base);
  addAccessHooks(app, rules);
  addErrorAnswers(app, bodyLimitBytes, routes);
  app.server.maxConnections = http.connections;
  limitUnauthenticated(app.server);
  app.addHook('onResponse', async (request, reply) => {
    const { method, originalUrl } = request;
    log.debug(
      { method, path: pathOf(originalUrl), status: reply.statusCode, ms: Math.round(reply.elapsedTime) },
      'request'
    );
  });
  await describeApi(app, base);
  return { app, routes };
}

/**
 * Every body is JSON, whatever its content type: Jupyter's clients send `text/plain`, or a content type without a body.
 * That is safe because a request without the token in a header is refused, and forms of other sites cannot set headers.
 */
function acceptJson(app: App): void {
  // Invalid UTF-8 is refused: with replacement characters it would name something else.
  const utf8 = new TextDecoder('utf-8', { fatal: true });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
    if (body.length === 0) {
      done(null, undefined);
      return;
    }
    try {
      done(null, JSON.parse(typeof body === 'string' ? body : utf8.decode(body)));
    } catch (error) {
      done(bridgeError('invalid_request', 'The body is not JSON.', error));
    }
  });
}

/** Where Jupyter's servers receive reports of browsers. They carry no token, so they are refused here like any other request. */
const REPORTS = '/api/security/csp-report';

function addAnswerHeaders(app: FastifyInstance, base: BaseUrl): void {
  const policy = `frame-ancestors 'self'; report-uri ${base.full(REPORTS)}; default-src 'none'`;
  app.addHook('onRequest', async (_request, reply) => {
    // An answer that is opened as a separate page may load and run nothing.
    void reply.header('content-security-policy', policy);
  });
  app.addHook('onSend', async (_request, reply) => {
    // JSON is UTF-8 by definition and has no charset; some clients compare the whole header.
    const type = reply.getHeader('content-type');
    if (typeof type === 'string' && type.startsWith('application/json')) {
      void reply.header('content-type', 'application/json');
    }
  });
}

/** A number as our clients write it; more digits exceed every limit. */
const PLAIN = /^-?\d{1,20}$/;

/**
 * The library converts query text to numbers, and for an integer it reads the leading digits: 1 of "1e400", 1 of "1.5".
 * No client that writes this means 1.
 */
const validatorCompiler: typeof TypeBoxValidatorCompiler = route => {
  const validate = TypeBoxValidatorCompiler(route);
  if (route.httpPart !== 'querystring') return validate;
  const properties = (route.schema as { properties?: Record<string, { type?: unknown }> }).properties ?? {};
  const whole = Object.keys(properties).filter(name => properties[name]?.type === 'integer');
  return (value: unknown) => {
    const query = value as Readonly<Record<string, unknown>>;
    const wrong = whole.find(name => {
      const given = query[name];
      return typeof given === 'string' && !PLAIN.test(given);
    });
    if (wrong === undefined) return validate(value);
    const message = 'Expected a whole number, in digits';
    return {
      error: [
        {
          keyword: 'type',
          instancePath: `/${wrong}`,
          schemaPath: `#/properties/${wrong}`,
          params: {},
          message
        }
      ]
    };
  };
};
