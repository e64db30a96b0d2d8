/** Turns any error into Jupyter's JSON error body with a stable code. Causes are logged, never sent. */
import type { FastifyError, FastifyInstance } from 'fastify';
import type { ErrorBody } from '@tpulab/protocol';
import {
  BridgeError,
  InternalError,
  InvalidRequestError,
  KernelSpecUnknownError,
  MethodNotAllowedError,
  PayloadTooLargeError,
  RouteNotFoundError,
  TooManyAttemptsError
} from './errors.js';
import { pathOf } from './authentication.js';
import { matchPath } from './path-pattern.js';

export function errorBody(error: BridgeError): ErrorBody & { short_message?: string } {
  const body = { message: error.message, reason: error.reason, code: error.code };
  return error instanceof KernelSpecUnknownError ? { ...body, short_message: error.shortMessage } : body;
}

/** Headers that belong to an error. */
export function errorHeaders(error: BridgeError): Record<string, string> {
  if (error instanceof TooManyAttemptsError) return { 'retry-after': String(error.retryAfterS) };
  if (error instanceof MethodNotAllowedError) return { allow: error.allowed.join(', ') };
  return {};
}

/** What the web framework refuses by itself (bad JSON, too large, bad URL) gets one of our errors. */
export function asBridgeError(error: unknown, bodyLimitBytes: number): BridgeError {
  if (error instanceof BridgeError) return error;
  const { statusCode, code, message, validation } = error as Partial<FastifyError>;
  if (validation !== undefined) {
    return new InvalidRequestError(`The request is not valid: ${message ?? 'unknown field'}.`, error);
  }
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new PayloadTooLargeError(bodyLimitBytes);
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new InvalidRequestError(`The request is not valid: ${message ?? 'malformed'}.`, error);
  }
  return new InternalError(error);
}

/** A route as it was registered. */
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
    // 503 and 501 are answers that we chose to give; any other 5xx is something that someone must look at.
    if (error.status === 500) request.log.error({ ...fields, err: error.cause ?? error }, 'request failed');
    else request.log.debug(fields, 'request refused');
    return reply.code(error.status).headers(errorHeaders(error)).send(errorBody(error));
  });
  app.setNotFoundHandler((request, reply) => {
    const path = pathOf(request.url);
    const allowed = [
      ...new Set(routes.filter(({ url }) => matchPath(url, path)).map(({ method }) => method))
    ].sort();
    if (allowed.length === 0) throw new RouteNotFoundError(request.method, pathOf(request.originalUrl));
    if (request.method !== 'OPTIONS') throw new MethodNotAllowedError(request.method, path, allowed);
    return reply.code(204).header('allow', allowed.join(', ')).send();
  });
}
