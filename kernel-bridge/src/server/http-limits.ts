/** What a connection may cost before anybody knows who it is. The same for both loopback addresses. */
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import {
  type BridgeError,
  HeadersTooLargeError,
  InvalidRequestError,
  RequestTimeoutError
} from '../kernels/errors.js';
import { answerRaw } from './raw-answer.js';

export interface HttpLimits {
  /** Bytes of the request line and all headers. */
  readonly headerBytes: number;
  /** Milliseconds for the headers of a request to arrive. */
  readonly headersTimeoutMs: number;
  /** Milliseconds for a whole request to arrive. */
  readonly requestTimeoutMs: number;
  /** Connections at a time; further ones are closed at once. */
  readonly connections: number;
}

export const HTTP_LIMITS: HttpLimits = {
  headerBytes: 16 * 1024,
  headersTimeoutMs: 20_000,
  requestTimeoutMs: 60_000,
  connections: 4096
};

/** As Node's HTTP server takes them. */
export function serverOptions(limits: HttpLimits) {
  return {
    maxHeaderSize: limits.headerBytes,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    connectionsCheckingInterval: Math.min(5000, limits.headersTimeoutMs)
  };
}

/** Answers what the HTTP parser refuses, then ends the connection: what follows on it cannot be understood either. */
export function clientErrorHandler(limits: HttpLimits, log: Logger) {
  return (error: Error & { code?: string }, socket: Socket): void => {
    log.debug({ code: error.code }, 'malformed request');
    // A peer that has gone gets no answer, and one whose answer has begun would take a second for its body.
    if (error.code === 'ECONNRESET' || !socket.writable || socket.bytesWritten > 0) {
      socket.destroy();
      return;
    }
    answerRaw(socket, explain(error.code, limits), {});
    socket.destroySoon();
  };
}

function explain(code: string | undefined, limits: HttpLimits): BridgeError {
  if (code === 'HPE_HEADER_OVERFLOW') return new HeadersTooLargeError(limits.headerBytes);
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new RequestTimeoutError();
  return new InvalidRequestError('This is not a valid HTTP request.');
}
