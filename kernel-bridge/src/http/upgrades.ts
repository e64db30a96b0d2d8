/**
 * WebSocket upgrades. A request is refused over HTTP, before the handshake, by the same rules as any other; only then is
 * its route looked up among those registered here.
 */
import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import { type Server as SocketServer, type WebSocket, WebSocketServer } from 'ws';
import { GatheringWebSocket } from './gathering-websocket.js';
import { guarded, guardEvents } from '@tpulab/platform/guard.js';
import { bridgeError, HandshakeRefused } from '@tpulab/platform/errors.js';
import { type AccessRules, actorOf, admit, may, requireAccess, type RouteAccess } from './access-hooks.js';
import type { ClientToken } from './client-tokens.js';
import type { Action, Resource } from './rights.js';
import { type Identity, pathOf, queryOf } from './authentication.js';
import type { BaseUrl } from './base-url.js';
import { answerRaw, asBridgeError, matchPath } from './error-answers.js';

export interface UpgradeRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** The holder of a restricted token; null: the client may do everything. */
  readonly actor: ClientToken | null;
  /** Whether the client may perform an action, checked at each attempt. */
  readonly may: (action: Action, resource: Resource) => boolean;
}

type UpgradeOpen = (socket: GatheringWebSocket, stream: Duplex) => void;

interface UpgradeRoute {
  /** Path with `:name` for one segment. */
  readonly path: string;
  readonly access: RouteAccess;
  /** Subprotocols of this route; the first one that the client offers is chosen. */
  readonly subprotocols: readonly string[];
  /** Throws a `BridgeError` to refuse; otherwise returns the handler of the open socket. */
  prepare(request: UpgradeRequest): UpgradeOpen | Promise<UpgradeOpen>;
}

interface Handshake {
  readonly request: IncomingMessage;
  readonly stream: Duplex;
  readonly head: Buffer;
}

/** The other end of a socket whose messages are forwarded, already open. */
export interface FarSocket {
  /** The chosen subprotocol; '': none. */
  readonly protocol: string;
  /** The client's end is open. */
  start(near: WebSocket): void;
  /** The client disconnected before the other end was used. */
  abandon(): void;
}

export interface RelayRoute {
  /** For descriptions only; `matches` decides. */
  readonly path: string;
  matches(path: string): boolean;
  access(path: string): RouteAccess;
  /** Opens the other end. Throws or rejects with a `BridgeError`, or a `HandshakeRefused`. */
  open(request: IncomingMessage, signal: AbortSignal): Promise<FarSocket>;
}

interface UpgradesOptions {
  readonly rules: AccessRules;
  readonly log: Logger;
  readonly base: BaseUrl;
  readonly maxPayloadBytes: number;
  /** Limit of open sockets of all clients together. */
  readonly maxSockets: number;
}

/** Limits for readers, which send almost nothing: they must not be able to fill the memory, or use all sockets of the owner. */
const READER_PAYLOAD_BYTES = 64 * 1024;
const READER_SOCKETS = 16;
/** Limit of all readers' sockets together, as a share of all sockets. */
const READER_SHARE = 0.25;

/** RFC 6455's "policy violation": the client must not simply retry. */
const CLOSE_TOKEN_INVALID = { code: 1008, reason: 'the token of this client is no longer valid' };

export class Upgrades {
  readonly routes: UpgradeRoute[] = [];
  readonly relays: RelayRoute[] = [];
  readonly #sockets: SocketServer<typeof GatheringWebSocket>;
  readonly #readerServer: SocketServer<typeof GatheringWebSocket>;
  /** The token that opened each socket. */
  readonly #identities = new WeakMap<WebSocket, Identity>();
  /** Handshakes that wait for their other end. */
  readonly #opening = new Set<AbortController>();
  /** The subprotocol that the other end has chosen. */
  readonly #chosen = new WeakMap<IncomingMessage, string>();
  #isClosing = false;

  constructor(private readonly options: UpgradesOptions) {
    this.#sockets = this.#server(options.maxPayloadBytes);
    this.#readerServer = this.#server(Math.min(READER_PAYLOAD_BYTES, options.maxPayloadBytes));
  }

  #server(maxPayload: number): SocketServer<typeof GatheringWebSocket> {
    return new WebSocketServer({
      noServer: true,
      clientTracking: true,
      WebSocket: GatheringWebSocket,
      // Compression costs more than it saves on loopback and in a tunnel, and allows memory exhaustion.
      perMessageDeflate: false,
      maxPayload,
      // The chosen protocol is decided per route, see #choose.
      handleProtocols: (offered, request) => this.#choose(offered, request)
    });
  }

  get #clients(): WebSocket[] {
    return [...this.#sockets.clients, ...this.#readerServer.clients];
  }

  add(route: UpgradeRoute): void {
    this.routes.push(route);
  }

  addRelay(route: RelayRoute): void {
    this.relays.push(route);
  }

  listen(server: Server): void {
    const { log } = this.options;
    server.on('upgrade', (request: IncomingMessage, stream: Duplex, head: Buffer) => {
      const failed = (error: unknown): void => {
        log.error({ err: error }, 'a handshake failed');
        stream.destroy();
      };
      guarded(failed, () => this.#upgrade(request, stream, head))();
    });
  }

  /**
   * Closes the sockets whose token was revoked or has expired. A peer that does not answer the close frame is cut off after
   * `graceMs`.
   */
  closeUnauthorized(graceMs: number): void {
    for (const socket of this.#clients) {
      const identity = this.#identities.get(socket);
      if (identity === undefined || this.options.rules.authenticator.isStillValid(identity)) continue;
      this.options.log.info({ client: identity.client?.name }, 'socket closed: its token is no longer valid');
      socket.close(CLOSE_TOKEN_INVALID.code, CLOSE_TOKEN_INVALID.reason);
      const timer = setTimeout(() => socket.terminate(), graceMs);
      socket.once('close', () => clearTimeout(timer));
    }
  }

  /** Closes all sockets and gives them a moment for it, then ends them. */
  async close(graceMs: number): Promise<void> {
    // Clients reconnect immediately, which would keep the server open.
    this.#isClosing = true;
    const { code, reason } = CLOSE.gatewayStopping;
    for (const one of this.#opening) one.abort();
    const open = this.#clients;
    for (const socket of open) if (socket.readyState === socket.OPEN) socket.close(code, reason);
    const closed = open.map(socket => new Promise<void>(resolve => socket.once('close', () => resolve())));
    const timer = setTimeout(() => open.forEach(socket => socket.terminate()), graceMs);
    await Promise.all(closed.filter((_, index) => open[index]?.readyState !== 3));
    clearTimeout(timer);
    this.#sockets.close();
    this.#readerServer.close();
  }

  #upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): void {
    const { rules, log, base } = this.options;
    // Until the handshake is done there is no other listener, and an unhandled error would end the process.
    stream.on('error', (error: Error) => log.debug({ err: error }, 'connection lost during an upgrade'));
    const target = request.url ?? '';
    request.url = base.inner(target);
    const path = pathOf(request.url);
    try {
      const identity = admit(request, rules, true);
      if (this.#isClosing) throw bridgeError('not_ready', 'The server is stopping; try again in a moment.');
      if (request.headers.upgrade?.toLowerCase() !== 'websocket') {
        throw bridgeError('invalid_request', 'Only upgrades to WebSocket are served here.');
      }
      const found = this.#find(path);
      const relay = this.relays.find(route => route.matches(path));
      requireAccess(request, found?.route.access ?? relay?.access(path), found?.params);
      if (found ?? relay) this.#requireRoom(identity);
      if (!found) {
        if (!relay) throw bridgeError('route_not_found', 'WebSocket', pathOf(target));
        this.#relay(relay, { request, stream, head }, identity).catch((error: unknown) =>
          this.#refuse(request, stream, error)
        );
        return;
      }
      const prepared = found.route.prepare({
        params: found.params,
        query: queryOf(request.url),
        actor: actorOf(request),
        may: (action, resource) => may(request, action, resource)
      });
      // Opened without awaiting if nothing has to be awaited: the first bytes of the stream have already arrived.
      if (typeof prepared === 'function') this.#open({ request, stream, head }, identity, prepared);
      else {
        prepared
          .then(open => stream.destroyed || this.#open({ request, stream, head }, identity, open))
          .catch((error: unknown) => this.#refuse(request, stream, error));
      }
    } catch (error) {
      this.#refuse(request, stream, error);
    }
  }

  /** Checks the limits of all sockets, of one reader's token, and of all readers together. */
  #requireRoom({ client }: Identity): void {
    const { maxSockets } = this.options;
    if (this.#clients.length + this.#opening.size >= maxSockets)
      throw bridgeError('too_many_sockets', maxSockets);
    if (client?.rights?.level !== 'read') return;
    const share = Math.max(1, Math.floor(maxSockets * READER_SHARE));
    const own = [...this.#readerServer.clients].filter(
      socket => this.#identities.get(socket)?.client?.sha256 === client.sha256
    ).length;
    if (own >= READER_SOCKETS) throw bridgeError('too_many_sockets', READER_SOCKETS);
    if (this.#readerServer.clients.size >= share) throw bridgeError('too_many_sockets', share);
  }

  #refuse(request: IncomingMessage, stream: Duplex, thrown: unknown): void {
    const { rules, log, maxPayloadBytes } = this.options;
    const path = pathOf(request.url ?? '');
    if (thrown instanceof HandshakeRefused) {
      // Without the body of the other end, which a browser would read as a plain HTTP answer.
      const { status } = thrown;
      stream.end(
        `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
      );
      return;
    }
    const error = asBridgeError(thrown, maxPayloadBytes);
    if (error.status === 500) log.error({ path, err: error.cause ?? error }, 'upgrade failed');
    else log.debug({ path, code: error.code, err: error.cause }, 'upgrade refused');
    answerRaw(stream, error, rules.origins.corsHeaders(request.headers));
  }

  /** Answers the client's handshake when the other end is open. */
  async #relay(route: RelayRoute, { request, stream, head }: Handshake, identity: Identity): Promise<void> {
    const closed = new AbortController();
    const leave = (): void => closed.abort();
    stream.once('close', leave);
    this.#opening.add(closed);
    try {
      const far = await route.open(request, closed.signal);
      if (closed.signal.aborted || this.#isClosing) {
        far.abandon();
        throw bridgeError('not_ready', 'The server is stopping; try again in a moment.');
      }
      this.#chosen.set(request, far.protocol);
      this.#open({ request, stream, head }, identity, near => far.start(near));
      // The client's handshake was invalid, and has been answered.
      if (stream.destroyed || stream.writableEnded) far.abandon();
    } finally {
      stream.off('close', leave);
      this.#opening.delete(closed);
    }
  }

  #open(
    { request, stream, head }: Handshake,
    identity: Identity,
    opened: (socket: GatheringWebSocket, stream: Duplex) => void
  ): void {
    const { log } = this.options;
    const server = identity.client?.rights?.level === 'read' ? this.#readerServer : this.#sockets;
    server.handleUpgrade(request, stream, head, socket => {
      guardEvents(socket, error => {
        log.error({ err: error, path: pathOf(request.url ?? '') }, 'a socket is closed: its handler failed');
        socket.close(CLOSE.failed.code, CLOSE.failed.reason);
      });
      this.#identities.set(socket, identity);
      if (stream instanceof Socket) stream.setNoDelay(true);
      socket.writeTo(stream);
      opened(socket, stream);
    });
  }

  #find(path: string): { route: UpgradeRoute; params: Record<string, string> } | null {
    for (const route of this.routes) {
      const params = matchPath(route.path, path);
      if (params) return { route, params };
    }
    return null;
  }

  #choose(offered: Set<string>, request: IncomingMessage): string | false {
    const chosen = this.#chosen.get(request);
    if (chosen !== undefined) return chosen === '' ? false : chosen;
    const found = this.#find(pathOf(request.url ?? ''));
    return found?.route.subprotocols.find(protocol => offered.has(protocol)) ?? false;
  }
}

/**
 * The codes with which a channels socket is closed. JupyterLab gives up for good at 1000 and 1001, so these are for kernels
 * that no longer exist; after any other code clients reconnect.
 */
export const CLOSE = {
  /** The kernel was shut down. */
  kernelRemoved: { code: 1000, reason: 'the kernel was shut down' },
  /** The client sent something that is not a Jupyter message. */
  malformedFrame: { code: 1007, reason: 'not a Jupyter message' },
  /** A handler of this socket failed; the log has the reason. */
  failed: { code: 1011, reason: 'internal error of the server' },
  /** The gateway stops; its kernels continue. */
  gatewayStopping: { code: 1012, reason: 'the server is restarting' },
  /** The client reads too slowly; it gets everything when it reconnects. */
  tooSlow: { code: 1013, reason: 'this client reads too slowly; reconnect to continue' },
  /** Another socket with the same session_id took over. */
  replaced: { code: 4001, reason: 'replaced by a newer connection of this session' }
} as const;

export type CloseCode = (typeof CLOSE)[keyof typeof CLOSE];
