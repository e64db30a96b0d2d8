/** What a connection may cost before its sender is authenticated. The same for both loopback addresses. */
import type { IncomingHttpHeaders, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import { type BridgeError, bridgeError } from '@tpulab/platform/errors.js';
import type { OriginPolicy } from './origin-policy.js';
import { answerRaw } from './error-answers.js';

export interface HttpLimits {
  /** Bytes of the request line and all headers. */
  readonly headerBytes: number;
  /** Milliseconds for the headers of a request to arrive. */
  readonly headersTimeoutMs: number;
  /** Milliseconds for a whole request to arrive. */
  readonly requestTimeoutMs: number;
  /** Simultaneous connections; further ones are closed immediately. */
  readonly connections: number;
}

export const HTTP_LIMITS: HttpLimits = {
  headerBytes: 16 * 1024,
  headersTimeoutMs: 20_000,
  requestTimeoutMs: 60_000,
  connections: 4096
};

/** In the form of Node's HTTP server. */
export function serverOptions(limits: HttpLimits) {
  return {
    maxHeaderSize: limits.headerBytes,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    connectionsCheckingInterval: Math.min(5000, limits.headersTimeoutMs)
  };
}

/**
 * Limit of connections per address that have sent no token. Each costs almost nothing; together they could use all
 * connections.
 */
const MAX_UNAUTHENTICATED = 512;
const onAuthenticated = new WeakMap<Socket, () => void>();

/**
 * Closes the oldest such connection of an address that has too many, so that a client that sends its token immediately is
 * always admitted.
 */
export function limitUnauthenticated(server: Server, most = MAX_UNAUTHENTICATED): void {
  const addresses = new Map<string, Set<Socket>>();
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? 'unix socket';
    const unauthenticated = addresses.get(address) ?? new Set();
    addresses.set(address, unauthenticated);
    unauthenticated.add(socket);
    const forget = (): void => {
      unauthenticated.delete(socket);
      if (unauthenticated.size === 0 && addresses.get(address) === unauthenticated) addresses.delete(address);
    };
    onAuthenticated.set(socket, forget);
    socket.once('close', forget);
    const [oldest] = unauthenticated;
    if (unauthenticated.size > most) oldest?.destroy();
  });
}

/** Called when a request with a token has arrived on this connection. */
export function authenticated(socket: Socket): void {
  onAuthenticated.get(socket)?.();
}

interface ClientErrors {
  readonly limits: HttpLimits;
  readonly origins: OriginPolicy;
  /** Headers of the request that this connection is answering, once they are complete. */
  readonly headersOf: (socket: Socket) => IncomingHttpHeaders | undefined;
  readonly log: Logger;
}

/** Answers a request that the HTTP parser refuses, then ends the connection: the bytes after it cannot be parsed either. */
export function clientErrorHandler({ limits, origins, headersOf, log }: ClientErrors) {
  return (error: Error & { code?: string; rawPacket?: unknown }, socket: Socket): void => {
    log.debug({ code: error.code }, 'malformed request');
    // A peer that has disconnected gets no answer, and one whose answer has begun would read a second answer as its body.
    if (error.code === 'ECONNRESET' || !socket.writable || socket.bytesWritten > 0) {
      socket.destroy();
      return;
    }
    const headers = headersOf(socket) ?? rawHeaders(error.rawPacket);
    // A page may only get what its origin may read, and an unknown host is not trusted.
    const cors = origins.allowsHost(headers.host) ? origins.corsHeaders(headers) : { vary: 'Origin' };
    answerRaw(socket, explain(error.code, limits), cors);
    socket.destroySoon();
  };
}

/**
 * The sender's headers, from the last bytes of the parser, which passes on nothing of a request that it refuses. Empty if
 * they are not in those bytes, as when headers arrive in many pieces or not at all, and if a header appears twice.
 */
function rawHeaders(bytes: unknown): { origin?: string; host?: string } {
  // Fastify's types declare it as a Buffer's JSON form, but it is the Buffer that Node's parser got.
  const text = Buffer.isBuffer(bytes) ? bytes.toString('latin1') : '';
  const head = text.split('\r\n\r\n', 1)[0] ?? '';
  const origin = onlyValue(head, /^origin:[ \t]*([!-~]+)[ \t]*\r?$/gim);
  const host = onlyValue(head, /^host:[ \t]*([!-~]+)[ \t]*\r?$/gim);
  return { ...(origin === undefined ? {} : { origin }), ...(host === undefined ? {} : { host }) };
}

function onlyValue(head: string, line: RegExp): string | undefined {
  const [first, ...others] = [...head.matchAll(line)];
  return others.length === 0 ? first?.[1] : undefined;
}

function explain(code: string | undefined, limits: HttpLimits): BridgeError {
  if (code === 'HPE_HEADER_OVERFLOW') return bridgeError('headers_too_large', limits.headerBytes);
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return bridgeError('request_timeout');
  return bridgeError('invalid_request', 'This is not a valid HTTP request.');
}
