/**
 * Checks that every request passes before a route handles it, in this order: Host, Origin, preflight, token, readiness. The
 * same function serves WebSocket upgrades, so that every entry point follows the same rules.
 */
import type { FastifyInstance } from 'fastify';
import type { IncomingMessage } from 'node:http';
import { BridgeError, bridgeError } from '@tpulab/platform/errors.js';
import { type Authenticator, type Identity, narrowed, pathOf } from './authentication.js';
import type { ClientToken } from './client-tokens.js';
import type { Action, MayDo, Resource } from './rights.js';
import { IDENTITY } from './gateway-proof.js';
import { authenticated } from './http-limits.js';
import type { FailedAttempts } from './failed-attempts.js';
import type { OriginPolicy } from './origin-policy.js';

export interface AccessRules {
  readonly authenticator: Authenticator;
  readonly origins: OriginPolicy;
  readonly attempts: FailedAttempts;
  /** False until the kernels of an earlier gateway are found again: an empty list would make clients drop them. */
  readonly ready: () => boolean;
  /** Whether the holder of a restricted token may perform an action. */
  readonly mayDo: MayDo;
}

/** The action and resource of a route; a route without them is only for holders of unrestricted tokens. */
export type RouteAccess = readonly [Action, ((params: Readonly<Record<string, string>>) => Resource)?];

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: RouteAccess;
  }
}

/** The sender of each admitted request. */
const senders = new WeakMap<
  IncomingMessage,
  { readonly client: ClientToken | null; readonly mayDo: MayDo }
>();

/** The holder of the restricted token that sent this request; null: the sender may do everything. */
export function actorOf(request: IncomingMessage): ClientToken | null {
  return senders.get(request)?.client ?? null;
}

/** Whether the sender of this request may perform the action. */
export function may(request: IncomingMessage, action: Action, resource: Resource): boolean {
  const sender = senders.get(request);
  return sender !== undefined && (sender.client === null || sender.mayDo(sender.client, action, resource));
}

/** @throws BridgeError `read_only` */
export function requireMay(request: IncomingMessage, action: Action, resource: Resource): void {
  if (!may(request, action, resource)) throw refusalOf(actorOf(request));
}

/** @throws BridgeError `read_only`, BridgeError `not_permitted` */
export function requireAccess(
  request: IncomingMessage,
  access: RouteAccess | undefined,
  params: unknown
): void {
  if (actorOf(request) === null) return;
  const [action, resourceOf] = access ?? ['own'];
  requireMay(request, action, resourceOf?.(params as Record<string, string>) ?? { kind: 'gateway' });
}

/** For routes of one kernel: `:kernelId`. */
export function kernelIn(params: Readonly<Record<string, string>>): Resource {
  return { kind: 'kernel', id: params['kernelId'] ?? '' };
}

function refusalOf(actor: ClientToken | null): BridgeError {
  return actor?.share === undefined
    ? bridgeError('not_permitted', actor?.rights?.level ?? 'read')
    : bridgeError('read_only');
}

const HEALTH = '/bridge/v1/health';
/**
 * The session page and the documentation: a browser that opens a link can send no token, and these pages are the same for
 * all users.
 */
export const PUBLIC_PAGES = /^\/(session|docs)(\/|$)/;
/** The sender has no token yet, because it first verifies the server's identity. */
const NO_IDENTITY: Identity = { client: null };
/** A file of a kernelspec, local or on a remote. */
const LOGO = /^(\/machines\/[^/]+)?\/kernelspecs\//;

function isPublic({ method, url = '' }: IncomingMessage): boolean {
  const path = pathOf(url);
  return (
    (method === 'GET' && path === IDENTITY) || (/^(GET|HEAD)$/.test(method ?? '') && PUBLIC_PAGES.test(path))
  );
}

/**
 * Allows tokens in the query only where no header can be set: `<img>` loads images of kernelspecs, and users paste the URL
 * `/?token=`.
 */
function queryTokenAllowed(request: IncomingMessage, rules: AccessRules, upgrade: boolean): boolean {
  if (upgrade || rules.origins.trustsQueryTokens(request.headers)) return true;
  const path = pathOf(request.url ?? '');
  return request.method === 'GET' && (path === '/' || LOGO.test(path));
}

/**
 * Admits a request, or throws the reason. Preflights are not handled here: they carry no token by design. Paths are relative
 * to the base URL.
 */
export function admit(request: IncomingMessage, rules: AccessRules, upgrade: boolean): Identity {
  const { host, origin } = request.headers;
  // The router would end the path at the fragment, but the rules would not (RFC 9112, 3.2: a target has no fragment).
  if (request.url?.includes('#') === true)
    throw bridgeError('invalid_request', 'The path of this request has a "#"; write %23.');
  if (!rules.origins.allowsHost(host)) throw bridgeError('host_refused', host ?? '');
  if (!rules.origins.allowsOrigin(request.headers)) throw bridgeError('origin_refused', origin ?? '');
  if (!upgrade && isPublic(request)) return NO_IDENTITY;
  const identity = rules.authenticator.identify(request, queryTokenAllowed(request, rules, upgrade));
  if (identity === null) {
    // Requests over a unix socket have no address; all come from this user.
    const waitS = rules.attempts.note(request.socket.remoteAddress ?? 'unix socket');
    throw waitS === null ? bridgeError('unauthorized') : bridgeError('too_many_attempts', waitS);
  }
  senders.set(request, { client: narrowed(identity), mayDo: rules.mayDo });
  authenticated(request.socket);
  if (!rules.ready() && pathOf(request.url ?? '') !== HEALTH) throw bridgeError('not_ready');
  return identity;
}

/** The reason to refuse a request that no route handles, or null. */
export function refusal(request: IncomingMessage, rules: AccessRules): BridgeError | null {
  try {
    admit(request, rules, false);
    const actor = actorOf(request);
    return actor && refusalOf(actor);
  } catch (error) {
    if (error instanceof BridgeError) return error;
    throw error;
  }
}

function isPreflight(request: IncomingMessage): boolean {
  return request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined;
}

export function addAccessHooks(app: FastifyInstance, rules: AccessRules): void {
  app.addHook('onRequest', async (request, reply) => {
    void reply.headers({ ...rules.origins.corsHeaders(request.headers), 'cache-control': 'no-store' });
    if (isPreflight(request.raw) && rules.origins.allowsHost(request.headers.host)) {
      if (!rules.origins.allowsOrigin(request.headers))
        throw bridgeError('origin_refused', request.headers.origin ?? '');
      return reply.code(204).headers(rules.origins.preflightHeaders(request.headers)).send();
    }
    admit(request.raw, rules, false);
    requireAccess(request.raw, request.routeOptions.config.access, request.params);
    return undefined;
  });
}
