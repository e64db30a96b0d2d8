/**
 * WebSocket upgrades. A request is refused over HTTP, before the handshake, by the same rules as any other; only
 * then is it looked up among the routes that are registered here.
 */
import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import { WebSocketServer, type WebSocket } from 'ws';
import { type BridgeError, InvalidRequestError, RouteNotFoundError } from '../kernels/errors.js';
import { type AccessRules, refusal } from './access-hooks.js';
import { pathOf, queryOf } from './authentication.js';
import { asBridgeError, errorBody } from './error-answers.js';

export interface UpgradeRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
}

export interface UpgradeRoute {
  /** Path with `:name` for one segment. */
  readonly path: string;
  /** Subprotocols of this route; the first of them that the client offers is chosen. */
  readonly subprotocols: readonly string[];
  /** Throws a `BridgeError` to refuse; otherwise says what is to be done with the open socket. */
  prepare(request: UpgradeRequest): (socket: WebSocket, stream: Duplex) => void;
}

export interface UpgradesOptions {
  readonly rules: AccessRules;
  readonly log: Logger;
  readonly maxPayloadBytes: number;
}

export class Upgrades {
  readonly routes: UpgradeRoute[] = [];
  readonly #options: UpgradesOptions;
  readonly #sockets: WebSocketServer;

  constructor(options: UpgradesOptions) {
    this.#options = options;
    this.#sockets = new WebSocketServer({
      noServer: true,
      clientTracking: true,
      // Compressing costs more than it saves on loopback and in a tunnel, and is a way to exhaust memory.
      perMessageDeflate: false,
      maxPayload: options.maxPayloadBytes,
      // The chosen protocol is decided per route, see #choose.
      handleProtocols: (offered, request) => this.#choose(offered, request)
    });
  }

  add(route: UpgradeRoute): void {
    this.routes.push(route);
  }

  listen(server: Server): void {
    server.on('upgrade', (request, stream, head) => this.#upgrade(request, stream, head));
  }

  /** Gives sockets that are being closed a moment, then ends them. */
  async close(graceMs: number): Promise<void> {
    const open = [...this.#sockets.clients];
    const closed = open.map(socket => new Promise<void>(resolve => socket.once('close', () => resolve())));
    const timer = setTimeout(() => open.forEach(socket => socket.terminate()), graceMs);
    await Promise.all(closed.filter((_, index) => open[index]?.readyState !== 3));
    clearTimeout(timer);
    this.#sockets.close();
  }

  #upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): void {
    const { rules, log, maxPayloadBytes } = this.#options;
    // Until the handshake is done nobody else listens, and an unheard error would end the process.
    const ignore = (error: Error): void => log.debug({ err: error }, 'connection lost during an upgrade');
    stream.on('error', ignore);
    const path = pathOf(request.url ?? '');
    try {
      const refused = refusal(request, rules, true);
      if (refused) throw refused;
      if (request.headers.upgrade?.toLowerCase() !== 'websocket') {
        throw new InvalidRequestError('Only upgrades to WebSocket are served here.');
      }
      const found = this.#find(path);
      if (!found) throw new RouteNotFoundError('WebSocket', path);
      const open = found.route.prepare({ params: found.params, query: queryOf(request.url ?? '') });
      this.#sockets.handleUpgrade(request, stream, head, socket => {
        stream.off('error', ignore);
        if (stream instanceof Socket) stream.setNoDelay(true);
        open(socket, stream);
      });
    } catch (thrown) {
      const error = asBridgeError(thrown, maxPayloadBytes);
      if (error.status === 500) log.error({ path, err: error.cause ?? error }, 'upgrade failed');
      else log.debug({ path, code: error.code }, 'upgrade refused');
      answer(stream, error, rules.origins.corsHeaders(request.headers));
    }
  }

  #find(path: string): { route: UpgradeRoute; params: Record<string, string> } | null {
    for (const route of this.routes) {
      const params = matchPath(route.path, path);
      if (params) return { route, params };
    }
    return null;
  }

  #choose(offered: Set<string>, request: IncomingMessage): string | false {
    const found = this.#find(pathOf(request.url ?? ''));
    return found?.route.subprotocols.find(protocol => offered.has(protocol)) ?? false;
  }
}

export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
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

/** An ordinary HTTP answer on a connection that wanted to become a WebSocket. */
function answer(stream: Duplex, error: BridgeError, cors: Record<string, string>): void {
  const body = JSON.stringify(errorBody(error));
  const headers = {
    ...cors,
    'cache-control': 'no-store',
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close'
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  stream.end(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}\r\n${lines.join('')}\r\n${body}`);
}
