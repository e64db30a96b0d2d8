/**
 * WebSocket upgrades. A request is refused over HTTP, before the handshake, by the same rules as any other; only
 * then is it looked up among the routes that are registered here.
 */
import type { IncomingMessage, Server } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import { type Server as SocketServer, type WebSocket, WebSocketServer } from 'ws';
import { GatheringWebSocket } from './gathering-websocket.js';
import { CLOSE } from './close-codes.js';
import {
  type BridgeError,
  InvalidRequestError,
  NotReadyError,
  RouteNotFoundError,
  TooManySocketsError
} from './errors.js';
import { type AccessRules, admit, readsOf } from './access-hooks.js';
import { type Identity, pathOf, queryOf } from './authentication.js';
import type { BaseUrl } from './base-url.js';
import { asBridgeError } from './error-answers.js';
import { matchPath } from './path-pattern.js';
import { answerRaw } from './raw-answer.js';

export interface UpgradeRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** The one notebook that the client may read, and change nothing; null: it may do everything. */
  readonly reads: string | null;
}

export interface UpgradeRoute {
  /** Path with `:name` for one segment. */
  readonly path: string;
  /** Subprotocols of this route; the first of them that the client offers is chosen. */
  readonly subprotocols: readonly string[];
  /** Throws a `BridgeError` to refuse; otherwise says what is to be done with the open socket. */
  prepare(request: UpgradeRequest): (socket: GatheringWebSocket, stream: Duplex) => void;
}

/** A connection that is passed on as it is, handshake and all. */
export interface PipedConnection {
  readonly closed: Promise<void>;
  close(code: number, reason: string): void;
  terminate(): void;
}

export interface PipeRoute {
  /** For descriptions; `matches` decides. */
  readonly path: string;
  matches(path: string): boolean;
  /** Throws a `BridgeError` to refuse. `fail` refuses later, while nothing has been answered yet. */
  open(upgrade: {
    readonly request: IncomingMessage;
    readonly client: Duplex;
    readonly head: Buffer;
    readonly fail: (error: BridgeError) => void;
  }): PipedConnection;
}

export interface UpgradesOptions {
  readonly rules: AccessRules;
  readonly log: Logger;
  readonly base: BaseUrl;
  readonly maxPayloadBytes: number;
  /** Open sockets of all clients together. */
  readonly maxSockets: number;
}

/** RFC 6455's "policy violation": the client must not simply try again. */
const CLOSE_TOKEN_GONE = { code: 1008, reason: 'the token of this client is no longer valid' };

export class Upgrades {
  readonly routes: UpgradeRoute[] = [];
  readonly pipes: PipeRoute[] = [];
  readonly #options: UpgradesOptions;
  readonly #sockets: SocketServer<typeof GatheringWebSocket>;
  /** With which token each open socket came. */
  readonly #identities = new WeakMap<WebSocket, Identity>();
  readonly #piped = new Map<PipedConnection, Identity>();
  #isClosing = false;

  constructor(options: UpgradesOptions) {
    this.#options = options;
    this.#sockets = new WebSocketServer({
      noServer: true,
      clientTracking: true,
      WebSocket: GatheringWebSocket,
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

  addPipe(route: PipeRoute): void {
    this.pipes.push(route);
  }

  listen(server: Server): void {
    server.on('upgrade', (request, stream, head) => this.#upgrade(request, stream, head));
  }

  /** Closes the sockets whose token was revoked or has expired. A peer that does not answer is cut off after `graceMs`. */
  closeUnauthorized(graceMs: number): void {
    for (const socket of this.#sockets.clients) {
      const identity = this.#identities.get(socket);
      if (identity === undefined || this.#options.rules.authenticator.stillValid(identity)) continue;
      this.#options.log.info(
        { client: identity.client?.name },
        'socket closed: its token is no longer valid'
      );
      socket.close(CLOSE_TOKEN_GONE.code, CLOSE_TOKEN_GONE.reason);
      const timer = setTimeout(() => socket.terminate(), graceMs);
      socket.once('close', () => clearTimeout(timer));
    }
    for (const [piped, identity] of this.#piped) {
      if (!this.#options.rules.authenticator.stillValid(identity)) {
        piped.close(CLOSE_TOKEN_GONE.code, CLOSE_TOKEN_GONE.reason);
      }
    }
  }

  /** Closes all sockets and gives them a moment for it, then ends them. */
  async close(graceMs: number): Promise<void> {
    // Clients come back at once, and would keep the server open.
    this.#isClosing = true;
    const { code, reason } = CLOSE.gatewayStopping;
    const piped = [...this.#piped.keys()];
    for (const one of piped) one.close(code, reason);
    const open = [...this.#sockets.clients];
    for (const socket of open) if (socket.readyState === socket.OPEN) socket.close(code, reason);
    const closed = open.map(socket => new Promise<void>(resolve => socket.once('close', () => resolve())));
    const timer = setTimeout(() => [...open, ...piped].forEach(socket => socket.terminate()), graceMs);
    await Promise.all([
      ...closed.filter((_, index) => open[index]?.readyState !== 3),
      ...piped.map(one => one.closed)
    ]);
    clearTimeout(timer);
    this.#sockets.close();
  }

  #upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): void {
    const { rules, log, base, maxPayloadBytes, maxSockets } = this.#options;
    // Until the handshake is done nobody else listens, and an unheard error would end the process.
    const ignore = (error: Error): void => log.debug({ err: error }, 'connection lost during an upgrade');
    stream.on('error', ignore);
    const target = request.url ?? '';
    request.url = base.inner(target);
    const path = pathOf(request.url);
    try {
      const identity = admit(request, rules, true);
      if (this.#isClosing) throw new NotReadyError('The gateway is stopping; try again in a moment.');
      if (request.headers.upgrade?.toLowerCase() !== 'websocket') {
        throw new InvalidRequestError('Only upgrades to WebSocket are served here.');
      }
      const found = this.#find(path);
      const pipe = this.pipes.find(route => route.matches(path));
      const isFull = this.#sockets.clients.size + this.#piped.size >= maxSockets;
      if (isFull && (found ?? pipe)) throw new TooManySocketsError(maxSockets);
      if (!found) {
        if (!pipe) throw new RouteNotFoundError('WebSocket', pathOf(target));
        this.#pipe(pipe, { request, client: stream, head, identity });
        return;
      }
      const open = found.route.prepare({
        params: found.params,
        query: queryOf(request.url),
        reads: readsOf(request)
      });
      this.#sockets.handleUpgrade(request, stream, head, socket => {
        stream.off('error', ignore);
        this.#identities.set(socket, identity);
        if (stream instanceof Socket) stream.setNoDelay(true);
        socket.writeTo(stream);
        open(socket, stream);
      });
    } catch (thrown) {
      const error = asBridgeError(thrown, maxPayloadBytes);
      if (error.status === 500) log.error({ path, err: error.cause ?? error }, 'upgrade failed');
      else log.debug({ path, code: error.code }, 'upgrade refused');
      answerRaw(stream, error, rules.origins.corsHeaders(request.headers));
    }
  }

  #pipe(
    route: PipeRoute,
    {
      identity,
      ...upgrade
    }: {
      readonly request: IncomingMessage;
      readonly client: Duplex;
      readonly head: Buffer;
      readonly identity: Identity;
    }
  ): void {
    const { request, client } = upgrade;
    const fail = (error: BridgeError): void =>
      answerRaw(client, error, this.#options.rules.origins.corsHeaders(request.headers));
    const piped = route.open({ ...upgrade, fail });
    this.#piped.set(piped, identity);
    void piped.closed.then(() => this.#piped.delete(piped));
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
