/**
 * The gateway of a remote, as far as this machine trusts it. All of its HTTP and WebSocket answers enter here, and leave
 * parsed, bounded and checked: a status and headers from short lists, one value each, without control characters. Anything
 * else ends that one answer. Headers on which a browser acts (redirects, cookies, policies) are not in the list, because
 * they would affect this machine.
 */
import { type Failed, guardEvents } from '@tpulab/platform/guard.js';
import { deadline } from '@tpulab/platform/waiting.js';
import { connect, type Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { Client, Pool } from 'undici';
import { WebSocket } from 'ws';
import { HandshakeRefused } from '@tpulab/platform/errors.js';

const ORIGIN = 'http://localhost';
/** A connection through ssh costs a round trip, so connections are reused for a while. */
const CONNECTIONS = 512;
const KEEP_ALIVE_MS = 30_000;
const HEAD_BYTES = 16 * 1024;
/** Time limit until an answer begins. A kernel may take minutes to start. */
const ANSWER_MS = 10 * 60_000;
const OWN_ANSWER_MS = 15_000;
/** Limit for an answer to our own requests: the other side chooses how much it sends. */
const OWN_ANSWER_BYTES = 4 * 1024 * 1024;
const HANDSHAKE_MS = 30_000;
const MESSAGE_BYTES = 256 * 1024 * 1024;

/** Methods without side effects at the far side (RFC 9110, section 9.2.1). */
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);
/** Headers of an answer that are passed on, each with its valid values. */
const FORWARDED_HEADERS: Readonly<Record<string, RegExp>> = {
  'accept-ranges': /^(bytes|none)$/,
  allow: /^[A-Z, ]*$/,
  'cache-control': /^[\w=", -]*$/,
  'content-disposition': /^[\x20-\x7e]*$/,
  'content-encoding': /^(gzip|br|deflate|identity)$/,
  'content-length': /^\d{1,15}$/,
  'content-range': /^bytes [\d*/-]+$/,
  'content-type': /^[\w.+-]+\/[\w.+-]+( *; *[\w-]+=("[\w .+:-]*"|[\w.+:-]+))*$/,
  etag: /^(W\/)?"[\x21\x23-\x7e]*"$/,
  'last-modified': /^[\w, :+-]+$/,
  'retry-after': /^\d{1,6}$/,
  'x-tpulab-created': /^[\w:.+-]+$/,
  'x-tpulab-modified': /^[\w:.+-]+$/,
  'x-tpulab-writable': /^(true|false)$/
};
const HEADER_CHARACTERS = 2_048;

/** A refused answer; the message is for people, in our own words. */
export class BadAnswer extends Error {
  override readonly name = 'BadAnswer';
}

/** The gateway there no longer accepts its own token. */
export class TokenRefused extends Error {
  override readonly name = 'TokenRefused';
}

interface RemoteQuestion {
  readonly method: string;
  /** The path and query, as written by the client. */
  readonly target: string;
  /** Names and values alternate; the result of `headersForRemote`, without the token. */
  readonly headers?: readonly string[];
  readonly body?: Readable | string | undefined;
  readonly signal: AbortSignal;
  /** Limit between two chunks of the answer; 0: none. */
  readonly silenceMs?: number;
}

export interface RemoteAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readable;
}

export class RemoteGateway implements Disposable {
  readonly #socketPath: string;
  readonly #token: string;
  readonly #pool: Pool;
  readonly #options: Client.Options;

  /** @param failed is notified of a socket listener that threw */
  constructor(
    at: { readonly socketPath: string; readonly token: string },
    private readonly failed?: Failed
  ) {
    this.#socketPath = at.socketPath;
    this.#token = at.token;
    this.#options = {
      connect: (_options, done) => this.#connect(done),
      maxHeaderSize: HEAD_BYTES,
      headersTimeout: ANSWER_MS,
      bodyTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS
    };
    this.#pool = new Pool(ORIGIN, { ...this.#options, connections: CONNECTIONS });
  }

  [Symbol.dispose](): void {
    void this.#pool.destroy().catch(() => undefined);
  }

  /** @throws BadAnswer, TokenRefused, or the connection error */
  async answer(question: RemoteQuestion): Promise<RemoteAnswer> {
    try {
      return await this.#answer(question);
    } catch (error) {
      // The pooled connection may just have been closed. A request with side effects is not repeated, and a body cannot be sent
      // twice.
      const mayRepeat = SAFE_METHODS.has(question.method) && question.body === undefined;
      if (!mayRepeat || !isClosed(error)) throw malformed(error);
    }
    try {
      return await this.#answer(question);
    } catch (error) {
      throw malformed(error);
    }
  }

  /** If an answer makes undici throw in an event (undici asserts more than a peer guarantees), that connection ends. */
  #connect(done: (...ended: [error: null, socket: Socket] | [error: Error, socket: null]) => void): void {
    const socket = connect(this.#socketPath);
    guardEvents(socket, error => {
      this.failed?.(error);
      socket.destroy(error instanceof Error ? error : undefined);
    });
    const failed = (error: Error): void => done(error, null);
    socket.once('error', failed).once('connect', () => {
      socket.off('error', failed);
      done(null, socket);
    });
  }

  /** Sends our own request: the answer is JSON, or null if it is empty. */
  async json(
    path: string,
    options: { readonly put?: object; readonly signal: AbortSignal; readonly timeoutMs?: number }
  ): Promise<{ readonly status: number; readonly body: unknown }> {
    const { put, timeoutMs = OWN_ANSWER_MS } = options;
    using limit = deadline(timeoutMs, options.signal);
    const { signal } = limit;
    const { status, body } = await this.answer({
      method: put === undefined ? 'GET' : 'PUT',
      target: path,
      ...(put && { headers: ['Content-Type', 'application/json'], body: JSON.stringify(put) }),
      signal
    });
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > OWN_ANSWER_BYTES) throw new BadAnswer('its answer is too large');
      chunks.push(chunk);
    }
    const text = Buffer.concat(chunks).toString('utf8');
    try {
      return { status, body: text === '' ? null : JSON.parse(text) };
    } catch (cause) {
      throw new BadAnswer('its answer is not JSON', { cause });
    }
  }

  /**
   * Opens a WebSocket there. It does not answer pings automatically, so that the far end can answer them.
   *
   * @throws HandshakeRefused, and as `answer`
   */
  openSocket(
    target: string,
    options: {
      readonly protocols?: readonly string[];
      readonly signal: AbortSignal;
      readonly maxBytes?: number;
    }
  ): Promise<WebSocket> {
    const { protocols = [], signal, maxBytes = MESSAGE_BYTES } = options;
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const socket = new WebSocket(new URL(target, ORIGIN.replace('http', 'ws')), [...protocols], {
        // A function instead of `ws+unix:`, which parses a path as part of a URL.
        createConnection: () => connect(this.#socketPath),
        headers: { authorization: `token ${this.#token}` },
        handshakeTimeout: HANDSHAKE_MS,
        maxPayload: maxBytes,
        perMessageDeflate: false,
        followRedirects: false,
        autoPong: false
      });
      guardEvents(socket, error => {
        this.failed?.(error);
        socket.terminate();
      });
      const leave = (): void => socket.terminate();
      signal.addEventListener('abort', leave, { once: true });
      socket.once('close', () => signal.removeEventListener('abort', leave));
      socket.once('open', () => {
        // Nothing is read before a listener exists; the listener resumes the socket.
        socket.pause();
        resolve(socket);
      });
      socket.once('unexpected-response', (request, { statusCode = 0 }) => {
        request.destroy();
        socket.terminate();
        reject(refusedWith(statusCode));
      });
      // This applies even after the socket has opened: an error without a listener would end the process. `close` reports
      // the end.
      socket.on('error', error => reject(isConnectionError(error) ? error : malformedBy(error)));
    });
  }

  async #answer({
    method,
    target,
    headers = [],
    body,
    signal,
    silenceMs
  }: RemoteQuestion): Promise<RemoteAnswer> {
    const isSafe = SAFE_METHODS.has(method);
    // Repeating a restart would restart twice: a request with side effects uses a new connection, which cannot be stale.
    const client = isSafe ? this.#pool : new Client(ORIGIN, this.#options);
    const over = new AbortController();
    const end = (): void => void (isSafe || client.destroy().catch(() => undefined));
    try {
      const answer = await client.request({
        method,
        path: target,
        headers: ['Host', 'localhost', 'Authorization', `token ${this.#token}`, ...headers],
        body: body ?? null,
        signal: AbortSignal.any([signal, over.signal]),
        responseHeaders: 'raw',
        ...(silenceMs === undefined ? {} : { bodyTimeout: silenceMs, headersTimeout: silenceMs }),
        // An informational answer that nobody requested; below 100 it is invalid.
        onInfo: ({ statusCode }) => over.abort(new BadAnswer(`it answers with the status ${statusCode}`))
      });
      answer.body.once('close', end);
      // Until a reader exists, which also receives the error.
      answer.body.on('error', () => undefined);
      try {
        return {
          status: checkedStatus(answer.statusCode),
          // Contrary to the library's types, the headers are an array of names and values.
          headers: checkedHeaders(answer.headers as unknown as readonly string[]),
          body: answer.body
        };
      } catch (error) {
        answer.body.destroy();
        throw error;
      }
    } catch (error) {
      end();
      throw over.signal.aborted ? (over.signal.reason as Error) : error;
    }
  }
}

function checkedStatus(status: number): number {
  if (status === 401 || status === 403) throw new TokenRefused('its server no longer accepts our token');
  if (status >= 300 && status <= 399) throw new BadAnswer(`it answers with a redirect (${status})`);
  if (status >= 200 && status <= 599) return status;
  throw new BadAnswer(`it answers with the status ${status}`);
}

function refusedWith(status: number): Error {
  try {
    return checkedStatus(status) >= 400
      ? new HandshakeRefused(status)
      : new BadAnswer(`it answers a handshake with the status ${status}`);
  } catch (error) {
    return error as Error;
  }
}

function checkedHeaders(raw: readonly string[]): Record<string, string> {
  const seen = new Set<string>();
  const passed: Record<string, string> = {};
  eachHeader(raw, (name, value) => {
    const lower = name.toLowerCase();
    if (seen.has(lower)) throw new BadAnswer(`it sends the header ${shownName(lower)} twice`);
    seen.add(lower);
    if (/[\x00-\x08\x0a-\x1f\x7f]/.test(value)) {
      throw new BadAnswer(`it sends control characters in the header ${shownName(lower)}`);
    }
    const allowed = Object.hasOwn(FORWARDED_HEADERS, lower) ? FORWARDED_HEADERS[lower] : undefined;
    if (allowed === undefined) return;
    if (value.length > HEADER_CHARACTERS || !allowed.test(value)) {
      throw new BadAnswer(`it sends a header ${lower} that is not valid`);
    }
    passed[lower] = value;
  });
  return passed;
}

function shownName(name: string): string {
  return name.replace(/[^\w-]/g, '?').slice(0, 40);
}

/** Codes with which undici and ws report a broken connection or an invalid answer. */
const CONNECTION_CODES =
  /^(E[A-Z]+|ABORT_ERR|UND_ERR_(ABORTED|CONNECT_TIMEOUT|HEADERS_TIMEOUT|BODY_TIMEOUT|DESTROYED|CLOSED))$/;

function isConnectionError(error: unknown): boolean {
  return CONNECTION_CODES.test(codeOf(error)) || isClosed(error) || isAbort(error);
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && /^(Abort|Timeout)Error$/.test(error.name);
}

function isClosed(error: unknown): boolean {
  const code = codeOf(error);
  if (code === 'UND_ERR_SOCKET')
    return (error as Error).message !== 'bad response' && (error as Error).message !== 'bad upgrade';
  return (
    code === 'ECONNRESET' ||
    code === 'EPIPE' ||
    /socket hang up|before the connection was established/.test((error as Error).message)
  );
}

function malformed(error: unknown): unknown {
  const isTyped = error instanceof BadAnswer || error instanceof TokenRefused;
  return isTyped || isConnectionError(error) ? error : malformedBy(error);
}

function malformedBy(cause: unknown): BadAnswer {
  return new BadAnswer('its answer is not valid HTTP', { cause });
}

export function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException | null)?.code ?? '';
}

/** These headers concern one connection (RFC 9110, 7.6.1), and here there are two. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect'
]);
/** Headers between the client and this gateway, which the remote must not see: above all our token. */
const OURS = new Set(['host', 'authorization', 'origin', 'cookie', 'referer', 'x-xsrftoken']);
/** Conditional headers request a 304 answer, which is not listed. */
const CONDITIONS = new Set(['if-none-match', 'if-modified-since']);

/**
 * The headers of a client's request that are passed to the remote, as alternating names and values, with their order and
 * case.
 */
export function headersForRemote(raw: readonly string[], method: string): string[] {
  const dropped = new Set([...HOP_BY_HOP, ...OURS, ...(SAFE_METHODS.has(method) ? CONDITIONS : [])]);
  eachHeader(raw, (name, value) => {
    if (name.toLowerCase() !== 'connection') return;
    for (const one of value.split(',')) dropped.add(one.trim().toLowerCase());
  });
  const headers: string[] = [];
  eachHeader(raw, (name, value) => {
    if (!dropped.has(name.toLowerCase())) headers.push(name, value);
  });
  return headers;
}

function eachHeader(raw: readonly string[], use: (name: string, value: string) => void): void {
  for (let index = 0; index < raw.length; index += 2) use(raw[index] ?? '', raw[index + 1] ?? '');
}

/** The target without our token. Everything else stays as written. */
export function withoutToken(target: string): string {
  const mark = target.indexOf('?');
  if (mark < 0) return target;
  const query = target
    .slice(mark + 1)
    .split('&')
    .filter(pair => keyOf(pair) !== 'token');
  return query.length === 0 ? target.slice(0, mark) : `${target.slice(0, mark)}?${query.join('&')}`;
}

function keyOf(pair: string): string {
  const key = (pair.split('=', 1)[0] ?? '').replaceAll('+', ' ');
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}
