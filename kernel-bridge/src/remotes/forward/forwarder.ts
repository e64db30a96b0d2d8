/** Everything that goes through this gateway to a remote, so that it ends when the remote cannot be reached any more. */
import { Agent, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { RemoteUnavailableError } from '../../server/errors.js';
import type { Remotes } from '../remotes.js';
import type { ReachableRemote } from '../contracts.js';
import { forwardRequest } from './forward-request.js';
import { PipedSocket } from './forward-upgrade.js';
import { RequestReader } from './request-reader.js';
import type { RequestedHere } from './requested-here.js';

/** A connection through ssh costs a round trip to make, so some are kept. */
const KEPT_CONNECTIONS = 32;
const CONNECTIONS = 512;

interface Lane {
  readonly remote: ReachableRemote;
  readonly agent: Agent;
  readonly sockets: Set<PipedSocket>;
}

type Fail = (error: RemoteUnavailableError) => void;

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
