/** Forwards all requests through this gateway to a remote, and ends them when the remote becomes unreachable. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { WebSocket } from 'ws';
import { type BridgeError, bridgeError, HandshakeRefused } from '@tpulab/platform/errors.js';
import type { FarSocket } from '../../http/upgrades.js';
import {
  BadAnswer,
  codeOf,
  headersForRemote,
  type ReachableRemote,
  RemoteGateway,
  type Remotes,
  TokenRefused,
  withoutToken
} from '@tpulab/machines';
import { type RequestedExecutions, requestIn, type SeenRequest } from './requested-executions.js';

/** After this code JupyterLab reconnects; after 1000 and 1001 it does not (docs/conformance.md). */
const UNREACHABLE_CLOSE = { code: 1012, reason: 'the remote machine cannot be reached now' };
/** How many unsent bytes one side may have before the other is paused. */
const UNSENT_BYTES = 1024 * 1024;

interface Connection {
  readonly remote: ReachableRemote;
  readonly gateway: RemoteGateway;
  readonly sockets: Set<WebSocket>;
}

export class Forwarder implements Disposable {
  readonly #connections = new Map<string, Connection>();
  readonly #listening: Disposable;

  /** @param requested stores which executions are requested from the kernels there */
  constructor(
    private readonly remotes: Remotes,
    private readonly requested: RequestedExecutions,
    log: Logger
  ) {
    this.#listening = remotes.onReachable((name, found) => {
      this.#close(name);
      const failed = (err: unknown): void =>
        log.error({ remote: name, err }, 'a socket to a machine is closed: its handler failed');
      if (found)
        this.#connections.set(name, {
          remote: found,
          gateway: new RemoteGateway(found, failed),
          sockets: new Set()
        });
    });
  }

  /** @throws BridgeError `remote_not_found`, BridgeError `remote_unavailable` immediately, before any byte is read or sent */
  request(
    name: string,
    request: IncomingMessage,
    response: ServerResponse,
    options: Pick<ForwardRequest, 'target' | 'headers' | 'fail'>
  ): void {
    const { gateway } = this.#connection(name);
    void forwardRequest({ ...options, name, request, response, gateway, refused: () => this.#refused(name) });
  }

  /** @throws as `request`; rejects if the far end refuses */
  async upgrade(
    name: string,
    request: IncomingMessage,
    target: string,
    signal: AbortSignal
  ): Promise<FarSocket> {
    const { gateway, sockets } = this.#connection(name);
    const far = await openRemoteSocket({
      name,
      request,
      target,
      gateway,
      signal,
      refused: () => this.#refused(name)
    });
    sockets.add(far);
    far.once('close', () => sockets.delete(far));
    return remoteSocket(far, this.#reading(name, target));
  }

  [Symbol.dispose](): void {
    this.#listening[Symbol.dispose]();
    for (const name of [...this.#connections.keys()]) this.#close(name);
  }

  /** Reads the socket of a kernel, to record the executions that a client requests. */
  #reading(name: string, target: string): (request: SeenRequest) => void {
    const kernelId = /^\/api\/kernels\/([^/?]+)\/channels(\?|$)/.exec(target)?.[1];
    return request => {
      if (kernelId !== undefined) this.requested.note(name, kernelId, request);
    };
  }

  #connection(name: string): Connection {
    const connection = this.#connections.get(name);
    if (connection) return connection;
    throw bridgeError('remote_unavailable', name, this.remotes.get(name).unreachableReason());
  }

  #refused(name: string): void {
    this.remotes.find(name)?.renew();
  }

  #close(name: string): void {
    const connection = this.#connections.get(name);
    if (!connection) return;
    this.#connections.delete(name);
    for (const socket of connection.sockets) socket.terminate();
    connection.gateway[Symbol.dispose]();
  }
}

interface Forwarding {
  readonly name: string;
  readonly request: IncomingMessage;
  readonly gateway: RemoteGateway;
  /** The request target, from the slash after the remote's name. */
  readonly target: string;
  /** Called when the remote no longer accepts its own token. */
  readonly refused: () => void;
}

interface ForwardRequest extends Forwarding {
  readonly response: ServerResponse;
  /** Our own headers, sent with every answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** Answers with our own error; called only before any part of an answer was sent. */
  readonly fail: (error: BridgeError) => void;
}

export async function forwardRequest(forward: ForwardRequest): Promise<void> {
  const { request, response, gateway, target, headers, fail } = forward;
  const hasBody =
    'transfer-encoding' in request.headers || Number(request.headers['content-length'] ?? 0) > 0;
  const method = request.method ?? 'GET';
  const closed = new AbortController();
  // The client has disconnected, or has its answer; a body still in transit has no reader.
  response.once('close', () => closed.abort());
  try {
    const answer = await gateway.answer({
      method,
      target: withoutToken(target),
      headers: headersForRemote(request.rawHeaders, method),
      body: hasBody ? request : undefined,
      signal: closed.signal
    });
    response.writeHead(answer.status, { ...answer.headers, ...headers });
    // Otherwise the first bytes of a stream would wait for the next ones.
    response.flushHeaders();
    response.socket?.setNoDelay(true);
    answer.body.once('error', () => response.destroy());
    answer.body.once('aborted', () => response.destroy());
    answer.body.pipe(response);
  } catch (error) {
    if (response.headersSent) response.destroy();
    else if (!closed.signal.aborted) fail(explained(error, forward));
  }
}

/** Our own error, independent of the message from the far end. */
function explained(error: unknown, { name, refused }: Forwarding): BridgeError {
  if (error instanceof BadAnswer) return bridgeError('remote_bad_answer', name, error.message, error.cause);
  if (error instanceof TokenRefused) {
    refused();
    return bridgeError('remote_unavailable', name, `${error.message}; requesting a new one`);
  }
  return bridgeError(
    'remote_unavailable',
    name,
    `its server did not answer (${codeOf(error) || 'no connection'})`
  );
}

/** @throws BridgeError, HandshakeRefused */
export async function openRemoteSocket(
  forward: Forwarding & { readonly signal: AbortSignal }
): Promise<WebSocket> {
  const { request, gateway, target, signal } = forward;
  const offered = request.headers['sec-websocket-protocol'] ?? '';
  const protocols = offered.split(',').flatMap(one => one.trim() || []);
  try {
    return await gateway.openSocket(withoutToken(target), { protocols, signal });
  } catch (error) {
    throw error instanceof HandshakeRefused ? error : explained(error, forward);
  }
}

export function remoteSocket(far: WebSocket, read: (request: SeenRequest) => void): FarSocket {
  return {
    protocol: far.protocol,
    abandon: () => far.terminate(),
    start: near => {
      near.on('message', (data: Buffer, isBinary: boolean) => {
        const request = requestIn(data, isBinary);
        if (request !== null) read(request);
      });
      pass(near, far);
      pass(far, near);
      // A ping tests the client, not this gateway.
      far.on('ping', data => near.ping(data));
      near.on('pong', data => far.pong(data));
      far.once('close', (code, reason) => close(near, code, reason));
      near.once('close', (code, reason) => close(far, code, reason));
      // It may have closed before the listener existed.
      if (far.readyState === WebSocket.CLOSED)
        close(near, UNREACHABLE_CLOSE.code, Buffer.from(UNREACHABLE_CLOSE.reason));
      far.resume();
    }
  };
}

/** Passes messages from one side to the other, read only as fast as the receiver accepts them. */
function pass(from: WebSocket, to: WebSocket): void {
  from.on('message', (data: Buffer, isBinary: boolean) => {
    if (to.readyState !== WebSocket.OPEN) return;
    to.send(data, { binary: isBinary }, () => {
      if (from.isPaused && to.bufferedAmount < UNSENT_BYTES) from.resume();
    });
    if (to.bufferedAmount >= UNSENT_BYTES) from.pause();
  });
  // The end of `from` must still be read.
  to.once('close', () => from.resume());
}

/** Closes with the close code of the other side, if that code may be sent. */
function close(socket: WebSocket, code: number, reason: Buffer): void {
  const isSendable =
    (code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code)) || (code >= 3000 && code <= 4999);
  if (code === 1005) socket.close();
  else if (isSendable) socket.close(code, reason);
  else socket.close(UNREACHABLE_CLOSE.code, UNREACHABLE_CLOSE.reason);
}
