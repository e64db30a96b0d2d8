/**
 * What every request passes before a route sees it, in this order: Host, Origin, preflight, token, readiness.
 * The same function serves WebSocket upgrades, so that no door has rules of its own.
 */
import type { FastifyInstance } from 'fastify';
import type { IncomingMessage } from 'node:http';
import {
  BridgeError,
  HostRefusedError,
  InvalidRequestError,
  NotReadyError,
  OriginRefusedError,
  ReadOnlyError,
  TooManyAttemptsError,
  UnauthorizedError
} from './errors.js';
import { type Authenticator, type Identity, pathOf } from './authentication.js';
import { IDENTITY } from './gateway-proof.js';
import type { FailedAttempts } from './failed-attempts.js';
import type { OriginPolicy } from './origin-policy.js';

export interface AccessRules {
  readonly authenticator: Authenticator;
  readonly origins: OriginPolicy;
  readonly attempts: FailedAttempts;
  /** False until the kernels of an earlier gateway are found again: an empty list would make clients drop them. */
  readonly ready: () => boolean;
  /** Whether a request is one of those that a token for reading one notebook is for. Everything else is refused. */
  readonly mayRead: (notebook: string, request: IncomingMessage) => boolean;
}

/** By request, the notebook that its token may read. A token that may do everything has none. */
const reading = new WeakMap<IncomingMessage, string>();

/** The one notebook that the sender of this request may read, and change nothing; null: the sender may do everything. */
export function readsOf(request: IncomingMessage): string | null {
  return reading.get(request) ?? null;
}

export const HEALTH = '/bridge/v1/health';
/** The session page and its assets: a browser that opens a link can send no token, and they are the same for everybody. */
export const SESSION_PAGE = /^\/session(\/|$)/;
/** Who sends no token, because it wants to know first to whom. */
const NOBODY: Identity = { client: null };
/** A file of a kernelspec, here or on a remote. */
const LOGO = /^(\/remotes\/[^/]+)?\/kernelspecs\//;

function isPublic({ method, url = '' }: IncomingMessage): boolean {
  const path = pathOf(url);
  return (
    (method === 'GET' && path === IDENTITY) || (/^(GET|HEAD)$/.test(method ?? '') && SESSION_PAGE.test(path))
  );
}

/** Images of kernelspecs are loaded by `<img>`, which can send no header; `/?token=` is the URL that people paste. */
function queryTokenAllowed(request: IncomingMessage, rules: AccessRules, upgrade: boolean): boolean {
  if (upgrade || rules.origins.trustsQueryTokens(request.headers)) return true;
  const path = pathOf(request.url ?? '');
  return request.method === 'GET' && (path === '/' || LOGO.test(path));
}

/**
 * Lets a request in, or throws why not. Preflights are not passed here: they carry no token by design. Paths are those
 * behind the base URL.
 */
export function admit(request: IncomingMessage, rules: AccessRules, upgrade: boolean): Identity {
  const { host, origin } = request.headers;
  // The router would end the path there, and the rules would not (RFC 9112, 3.2: a target has no fragment).
  if (request.url?.includes('#') === true)
    throw new InvalidRequestError('The path of this request has a "#"; write %23.');
  if (!rules.origins.allowsHost(host)) throw new HostRefusedError(host ?? '');
  if (!rules.origins.allowsOrigin(request.headers)) throw new OriginRefusedError(origin ?? '');
  if (!upgrade && isPublic(request)) return NOBODY;
  const identity = rules.authenticator.identify(request, queryTokenAllowed(request, rules, upgrade));
  if (identity === null) {
    // Requests over a unix socket have no address, and all come from this user.
    const waitS = rules.attempts.note(request.socket.remoteAddress ?? 'unix socket');
    throw waitS === null ? new UnauthorizedError() : new TooManyAttemptsError(waitS);
  }
  const reads = identity.client?.reads ?? null;
  if (reads !== null) {
    if (!rules.mayRead(reads, request)) throw new ReadOnlyError();
    reading.set(request, reads);
  }
  if (!rules.ready() && pathOf(request.url ?? '') !== HEALTH) throw new NotReadyError();
  return identity;
}

/** The reason to refuse a request, or null. */
export function refusal(request: IncomingMessage, rules: AccessRules): BridgeError | null {
  try {
    admit(request, rules, false);
    return null;
  } catch (error) {
    if (error instanceof BridgeError) return error;
    throw error;
  }
}

export function isPreflight(request: IncomingMessage): boolean {
  return request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined;
}

export function addAccessHooks(app: FastifyInstance, rules: AccessRules): void {
  app.addHook('onRequest', async (request, reply) => {
    void reply.headers({ ...rules.origins.corsHeaders(request.headers), 'cache-control': 'no-store' });
    if (isPreflight(request.raw) && rules.origins.allowsHost(request.headers.host)) {
      if (!rules.origins.allowsOrigin(request.headers))
        throw new OriginRefusedError(request.headers.origin ?? '');
      return reply.code(204).headers(rules.origins.preflightHeaders(request.headers)).send();
    }
    admit(request.raw, rules, false);
    return undefined;
  });
}
