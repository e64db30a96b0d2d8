/** Turns any error into Jupyter's JSON error body with a stable code. Causes are logged, never sent. */
import type { FastifyError, FastifyInstance } from 'fastify';
import type { ErrorBody } from '@tpulab/protocol';
import { BridgeError, bridgeError, isBridgeError } from '@tpulab/platform/errors.js';
import { pathOf } from './authentication.js';
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';

export function errorBody(error: BridgeError): ErrorBody & { short_message?: string } {
  const body = { message: error.message, reason: error.reason, code: error.code };
  return isBridgeError(error, 'kernelspec_unknown')
    ? { ...body, short_message: `${String(error.about[0])} not found` }
    : body;
}

/** Headers that belong to an error. */
export function errorHeaders({ code, about }: BridgeError): Record<string, string> {
  if (code === 'too_many_attempts') return { 'retry-after': String(about[0]) };
  if (code === 'method_not_allowed') return { allow: (about[2] as readonly string[]).join(', ') };
  return {};
}

/** Converts errors of the web framework itself (bad JSON, too large, bad URL) into ours. */
export function asBridgeError(error: unknown, bodyLimitBytes: number): BridgeError {
  if (error instanceof BridgeError) return error;
  const { statusCode, code, message, validation } = error as Partial<FastifyError>;
  if (validation !== undefined) {
    return bridgeError('invalid_request', `The request is not valid: ${message ?? 'unknown field'}.`, error);
  }
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return bridgeError('payload_too_large', bodyLimitBytes);
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return bridgeError('invalid_request', `The request is not valid: ${message ?? 'malformed'}.`, error);
  }
  return bridgeError('internal', error);
}

export interface RouteEntry {
  readonly method: string;
  readonly url: string;
}

export function addErrorAnswers(
  app: FastifyInstance,
  bodyLimitBytes: number,
  routes: readonly RouteEntry[]
): void {
  app.setErrorHandler((thrown, request, reply) => {
    const error = asBridgeError(thrown, bodyLimitBytes);
    const fields = { method: request.method, path: pathOf(request.originalUrl), code: error.code };
    // 503 and 501 are deliberate answers; other errors with status 500 need an investigation.
    if (error.status === 500) request.log.error({ ...fields, err: error.cause ?? error }, 'request failed');
    else request.log.debug(fields, 'request refused');
    return reply.code(error.status).headers(errorHeaders(error)).send(errorBody(error));
  });
  app.setNotFoundHandler((request, reply) => {
    const path = pathOf(request.url);
    const allowed = [
      ...new Set(routes.filter(({ url }) => matchPath(url, path)).map(({ method }) => method))
    ].sort();
    if (allowed.length === 0)
      throw bridgeError('route_not_found', request.method, pathOf(request.originalUrl));
    if (request.method !== 'OPTIONS') throw bridgeError('method_not_allowed', request.method, path, allowed);
    return reply.code(204).header('allow', allowed.join(', ')).send();
  });
}

/** A plain HTTP answer on a connection that the web framework does not manage, or no longer manages. */
export function answerRaw(stream: Duplex, error: BridgeError, cors: Record<string, string>): void {
  const body = JSON.stringify(errorBody(error));
  const headers = {
    ...cors,
    ...errorHeaders(error),
    'cache-control': 'no-store',
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close'
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  stream.end(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}\r\n${lines.join('')}\r\n${body}`);
}

/* Paths of routes, `/api/kernels/:kernelId`, matched against paths of requests. */

/** The decoded parameters; null when the path does not match, or cannot be decoded. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const patternParts = pattern.split('/');
  const given = path.split('/');
  if (patternParts.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [index, part] of patternParts.entries()) {
    const value = given[index] ?? '';
    if (!part.startsWith(':')) {
      if (part !== value) return null;
      continue;
    }
    try {
      params[part.slice(1)] = decodeURIComponent(value);
    } catch {
      return null;
    }
  }
  return params;
}
