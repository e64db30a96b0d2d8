/**
 * What every request passes before a route sees it, in this order: Host, Origin, preflight, token, readiness.
 * The same function serves WebSocket upgrades, so that no door has rules of its own.
 */
import type { FastifyInstance } from 'fastify';
import type { IncomingMessage } from 'node:http';
import {
  type BridgeError,
  HostRefusedError,
  NotReadyError,
  OriginRefusedError,
  UnauthorizedError
} from '../kernels/errors.js';
import { type Authenticator, pathOf } from './authentication.js';
import type { OriginPolicy } from './origin-policy.js';

export interface AccessRules {
  readonly authenticator: Authenticator;
  readonly origins: OriginPolicy;
  /** False until the kernels of an earlier gateway are found again: an empty list would make clients drop them. */
  readonly ready: () => boolean;
}

const HEALTH = '/bridge/v1/health';

/** Images of kernelspecs are loaded by `<img>`, which can send no header. */
function queryTokenAllowed(request: IncomingMessage, upgrade: boolean): boolean {
  return upgrade || (request.method === 'GET' && pathOf(request.url ?? '').startsWith('/kernelspecs/'));
}

/** The reason to refuse a request, or null. Preflights are not passed here: they carry no token by design. */
export function refusal(request: IncomingMessage, rules: AccessRules, upgrade: boolean): BridgeError | null {
  const { host, origin } = request.headers;
  if (!rules.origins.allowsHost(host)) return new HostRefusedError(host ?? '');
  if (!rules.origins.allowsOrigin(request.headers)) return new OriginRefusedError(origin ?? '');
  if (!rules.authenticator.accepts(request, queryTokenAllowed(request, upgrade)))
    return new UnauthorizedError();
  if (!rules.ready() && pathOf(request.url ?? '') !== HEALTH) return new NotReadyError();
  return null;
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
    const error = refusal(request.raw, rules, false);
    if (error) throw error;
    return undefined;
  });
}
