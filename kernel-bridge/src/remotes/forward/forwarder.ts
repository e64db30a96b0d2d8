/** Everything that goes through this gateway to a remote, so that it ends when the remote cannot be reached any more. */
import { Agent, type IncomingMessage, type ServerResponse, request as httpRequest } from 'node:http';
import type { Duplex } from 'node:stream';
import { type BridgeError, RemoteUnavailableError } from '../../http/errors.js';
import type { Remotes } from '../remotes.js';
import type { ReachableRemote } from '../contracts.js';
import { PipedSocket } from './forward-upgrade.js';
import { RequestReader } from './request-reader.js';
import type { RequestedHere } from './requested-here.js';
import { headersForClient, headersForRemote, withoutToken } from './headers.js';

/** A connection through ssh costs a round trip to make, so some are kept. */
const KEPT_CONNECTIONS = 32;
const CONNECTIONS = 512;

interface Lane {
  readonly remote: ReachableRemote;
  readonly agent: Agent;
  readonly sockets: Set<PipedSocket>;
}

type Fail = (error: BridgeError) => void;

export class Forwarder implements Disposable {
  readonly #remotes: Remotes;
  readonly #requested: RequestedHere;
  readonly #lanes = new Map<string, Lane>();
  readonly #listening: Disposable;

  /** @param requested where it is written down what is asked of the kernels there */
  constructor(remotes: Remotes, requested: RequestedHere) {
    this.#remotes = remotes;
    this.#requested = requested;
    this.#listening = remotes.onReachable((name, found) => {
      this.#close(name);
      if (found) {
        const agent = new Agent({
          keepAlive: true,
          maxSockets: CONNECTIONS,
          maxFreeSockets: KEPT_CONNECTIONS
        });
        this.#lanes.set(name, { remote: found, agent, sockets: new Set() });
      }
    });
  }

  /** @throws RemoteNotFoundError, RemoteUnavailableError at once, before anything is read or sent */
  request(
    name: string,
    request: IncomingMessage,
    response: ServerResponse,
    options: {
      readonly target: string;
      readonly prefix: string;
      readonly headers: Record<string, string>;
      readonly fail: Fail;
    }
  ): void {
    const { remote, agent } = this.#lane(name);
    forwardRequest({ ...options, request, response, remote, agent, refused: () => this.#refused(name) });
  }

  /** @throws as `request` */
  upgrade(
    name: string,
    request: IncomingMessage,
    client: Duplex,
    options: { readonly head: Buffer; readonly target: string; readonly fail: Fail }
  ): PipedSocket {
    const { remote, sockets } = this.#lane(name);
    const socket = new PipedSocket({
      ...options,
      request,
      client,
      remote,
      refused: () => this.#refused(name),
      ...this.#reading(name, options.target)
    });
    sockets.add(socket);
    void socket.closed.then(() => sockets.delete(socket));
    return socket;
  }

  [Symbol.dispose](): void {
    this.#listening[Symbol.dispose]();
    for (const name of [...this.#lanes.keys()]) this.#close(name);
  }

  /** Sockets of kernels are read along. */
  #reading(name: string, target: string): { read?: (chunk: Buffer) => void } {
    const kernelId = /^\/api\/kernels\/([^/?]+)\/channels(\?|$)/.exec(target)?.[1];
    if (kernelId === undefined) return {};
    const reader = new RequestReader(request => this.#requested.note(name, kernelId, request));
    return { read: chunk => reader.take(chunk) };
  }

  #lane(name: string): Lane {
    const lane = this.#lanes.get(name);
    if (lane) return lane;
    throw new RemoteUnavailableError(name, this.#remotes.get(name).whyAway());
  }

  #refused(name: string): void {
    this.#remotes.find(name)?.renew();
  }

  #close(name: string): void {
    const lane = this.#lanes.get(name);
    if (!lane) return;
    this.#lanes.delete(name);
    for (const socket of lane.sockets) socket.close();
    lane.agent.destroy();
  }
}

export interface ForwardRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly remote: ReachableRemote;
  readonly agent: Agent;
  /** What is asked of the remote, from the slash behind its name. */
  readonly target: string;
  /** What stands before it in the client's paths. */
  readonly prefix: string;
  /** Our own headers of every answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** Answers in our own name; nothing of an answer has been sent when it is called. */
  readonly fail: (error: BridgeError) => void;
  /** The remote does not know its own token any more. */
  readonly refused: () => void;
}

/** They change nothing at the far side (RFC 9110, section 9.2.1). */
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

export function forwardRequest(forward: ForwardRequest): void {
  send(forward, true);
}

function send(forward: ForwardRequest, mayRetry: boolean): void {
  const { request, response, remote, agent, target, prefix, headers, fail, refused } = forward;
  const hasBody =
    'transfer-encoding' in request.headers || Number(request.headers['content-length'] ?? 0) > 0;
  const method = request.method ?? 'GET';
  // Sent again, a restart or a start would happen twice: whatever acts gets a connection of its own, which cannot be stale.
  const isSafe = SAFE_METHODS.has(method);
  const sent = httpRequest({
    socketPath: remote.socketPath,
    agent: isSafe ? agent : false,
    method,
    path: withoutToken(target),
    headers: headersForRemote(request.rawHeaders, remote.token),
    setHost: false
  });
  let isAnswered = false;
  const gone = (): void => {
    // The client has left, or has its answer; a body that is still on its way has no reader.
    if (!response.writableFinished) sent.destroy();
  };
  response.once('close', gone);

  sent.on('response', answer => {
    isAnswered = true;
    if (answer.statusCode === 401 || answer.statusCode === 403) {
      answer.resume();
      refused();
      fail(
        new RemoteUnavailableError(
          remote.name,
          'its gateway no longer accepts our token; requesting a new one'
        )
      );
      return;
    }
    response.writeHead(
      answer.statusCode ?? 500,
      answer.statusMessage,
      headersForClient(answer.rawHeaders, headers, prefix)
    );
    // Or the first bytes of a stream would wait for the second.
    response.flushHeaders();
    response.socket?.setNoDelay(true);
    answer.on('error', () => response.destroy());
    answer.on('aborted', () => response.destroy());
    answer.pipe(response);
  });
  sent.on('error', error => {
    if (isAnswered) return void response.destroy();
    response.off('close', gone);
    if (response.destroyed) return;
    // A connection that was kept for the next request may have been closed just now; nothing has been sent on it.
    if (mayRetry && isSafe && sent.reusedSocket && !hasBody && /ECONNRESET|EPIPE/.test(codeOf(error))) {
      send(forward, false);
      return;
    }
    fail(
      new RemoteUnavailableError(
        remote.name,
        `its gateway did not answer (${codeOf(error) || error.message})`
      )
    );
  });

  if (hasBody) request.pipe(sent);
  else sent.end();
}

function codeOf(error: Error): string {
  return (error as NodeJS.ErrnoException).code ?? '';
}
