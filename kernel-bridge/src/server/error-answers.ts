/** Turns any error into Jupyter's JSON error body with a stable code. Causes are logged, never sent. */
import type { FastifyError, FastifyInstance } from 'fastify';
import type { ErrorBody } from '@tpulab/protocol';
import {
  BridgeError,
  InternalError,
  InvalidRequestError,
  KernelSpecUnknownError,
  PayloadTooLargeError,
  RouteNotFoundError
} from '../kernels/errors.js';
import { pathOf } from './authentication.js';

export function errorBody(error: BridgeError): ErrorBody & { short_message?: string } {
  const body = { message: error.message, reason: error.reason, code: error.code };
  return error instanceof KernelSpecUnknownError ? { ...body, short_message: error.shortMessage } : body;
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

export function addErrorAnswers(app: FastifyInstance, bodyLimitBytes: number): void {
  app.setErrorHandler((thrown, request, reply) => {
    const error = asBridgeError(thrown, bodyLimitBytes);
    const fields = { method: request.method, path: pathOf(request.url), code: error.code };
    // 503 and 501 are answers that we chose to give; any other 5xx is something that someone must look at.
    if (error.status === 500) request.log.error({ ...fields, err: error.cause ?? error }, 'request failed');
    else request.log.debug(fields, 'request refused');
    return reply.code(error.status).send(errorBody(error));
  });
  app.setNotFoundHandler(request => {
    throw new RouteNotFoundError(request.method, pathOf(request.url));
  });
}
