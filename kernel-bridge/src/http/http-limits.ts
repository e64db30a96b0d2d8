/** What a connection may cost before anybody knows who it is. The same for both loopback addresses. */
import type { IncomingHttpHeaders, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import { type BridgeError, bridgeError } from '../platform/bridge-error.js';
import type { OriginPolicy } from './origin-policy.js';
import { answerRaw } from './error-answers.js';

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

/** Connections of one address that have shown no token. They cost next to nothing each, and together all that the server may have. */
const STRANGERS = 512;
const onAuthenticated = new WeakMap<Socket, () => void>();

/** The oldest one goes when there are too many of an address, so that whoever shows a token at once is never kept out. */
export function boundStrangers(server: Server, most = STRANGERS): void {
  const addresses = new Map<string, Set<Socket>>();
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? 'unix socket';
    const strangers = addresses.get(address) ?? new Set();
    addresses.set(address, strangers);
    strangers.add(socket);
    const forget = (): void => {
      strangers.delete(socket);
      if (strangers.size === 0 && addresses.get(address) === strangers) addresses.delete(address);
    };
    onAuthenticated.set(socket, forget);
    socket.once('close', forget);
    const [oldest] = strangers;
    if (strangers.size > most) oldest?.destroy();
  });
}

/** A request with a token came on this connection. */
export function authenticated(socket: Socket): void {
  onAuthenticated.get(socket)?.();
}

export interface ClientErrors {
  readonly limits: HttpLimits;
  readonly origins: OriginPolicy;
  /** Headers of the request that is being answered on this connection, when they have all come. */
  readonly headersOf: (socket: Socket) => IncomingHttpHeaders | undefined;
  readonly log: Logger;
}

/** Answers what the HTTP parser refuses, then ends the connection: what follows on it cannot be understood either. */
export function clientErrorHandler({ limits, origins, headersOf, log }: ClientErrors) {
  return (error: Error & { code?: string; rawPacket?: unknown }, socket: Socket): void => {
    log.debug({ code: error.code }, 'malformed request');
    // A peer that has gone gets no answer, and one whose answer has begun would take a second for its body.
    if (error.code === 'ECONNRESET' || !socket.writable || socket.bytesWritten > 0) {
      socket.destroy();
      return;
    }
    const headers = headersOf(socket) ?? rawHeaders(error.rawPacket);
    // A page may only be told what it can read, and a host that is not ours is nobody to trust.
    const cors = origins.allowsHost(headers.host) ? origins.corsHeaders(headers) : { vary: 'Origin' };
    answerRaw(socket, explain(error.code, limits), cors);
    socket.destroySoon();
  };
}

/**
 * Who asks, from the bytes that the parser had last, as it passes nothing on of a request that it refuses. Empty where they do
 * not hold it, as when headers come in many pieces or not at all, and where a header is there twice.
 */
function rawHeaders(bytes: unknown): { origin?: string; host?: string } {
  // Fastify's types have it as a Buffer looks in JSON; it is what Node's parser was given.
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
