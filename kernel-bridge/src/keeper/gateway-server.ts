/** Listens for gateways. Several may be connected: an old one that is dying, and the new one. */
import { rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { GatewayLink, type TelemetrySource } from './gateway-link.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import {
  type Command,
  type CommandReplies,
  type KeeperEvent,
  parseCommand
} from '../keeper-protocol/messages.js';
import { listenPrivately } from './telemetry-socket.js';
import type { KeeperLog } from './keeper-log.js';

/** More than two means that something connects in a loop. */
const MAX_GATEWAYS = 16;

/** How long a link may take to send its last reply when the keeper ends. */
const FAREWELL_MS = 1_000;

export interface GatewayRequests {
  /** What a gateway is told first: hello, and then whatever is wrong at the moment. */
  greeting(): readonly KeeperEvent[];
  /** Answers everything but `subscribe` and `telemetry`, which belong to a link. */
  command(command: Exclude<Command, { op: 'subscribe' | 'telemetry' }>): Promise<object>;
  subscribe(): CommandReplies['subscribe'];
  telemetryRange(): CommandReplies['telemetry'];
  message(frame: Buffer): void;
}

export class GatewayServer implements AsyncDisposable {
  readonly #links = new Set<GatewayLink>();
  readonly #server: Server;

  private constructor(
    private readonly path: string,
    private readonly requests: GatewayRequests,
    telemetry: TelemetrySource,
    private readonly log: KeeperLog
  ) {
    this.#server = createServer(socket => {
      const link = new GatewayLink(socket, telemetry, {
        command: (from, body) => void this.#command(from, body),
        message: frame => requests.message(frame),
        closed: (closed, error) => this.#closed(closed, error)
      });
      this.#links.add(link);
      for (const event of requests.greeting()) link.event(event);
    });
    this.#server.maxConnections = MAX_GATEWAYS;
  }

  static async listen(
    path: string,
    requests: GatewayRequests,
    telemetry: TelemetrySource,
    log: KeeperLog
  ): Promise<GatewayServer> {
    const server = new GatewayServer(path, requests, telemetry, log);
    await listenPrivately(server.#server, path, log);
    return server;
  }

  get links(): Iterable<GatewayLink> {
    return this.#links;
  }

  /** Ends the links after what has been written to them, and removes the socket. */
  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()));
    const timer = setTimeout(() => this.#links.forEach(link => link.destroy()), FAREWELL_MS);
    this.#links.forEach(link => link.end());
    await closed;
    clearTimeout(timer);
    await rm(this.path, { force: true });
  }

  async #command(link: GatewayLink, body: Buffer): Promise<void> {
    let command: Command;
    try {
      command = parseCommand(body);
    } catch (error) {
      this.log.warn({ err: error }, 'a gateway sent something unknown');
      link.destroy();
      return;
    }
    try {
      if (command.op === 'subscribe') {
        link.goLive();
        link.reply({ id: command.id, ok: true, value: this.requests.subscribe() });
      } else if (command.op === 'telemetry') {
        link.reply({ id: command.id, ok: true, value: this.requests.telemetryRange() });
        link.startTelemetry(command.since);
      } else {
        link.reply({ id: command.id, ok: true, value: await this.requests.command(command) });
      }
    } catch (error) {
      const { code, message } =
        error instanceof KeeperError
          ? error
          : { code: 'keeper_protocol', message: 'The keeper failed; see its keeper.log.' };
      this.log.warn({ op: command.op, err: error }, 'a command failed');
      link.reply({ id: command.id, ok: false, code, message });
    }
  }

  #closed(link: GatewayLink, error: Error | null): void {
    this.#links.delete(link);
    this.log.info({ err: error ?? undefined }, 'a gateway has disconnected');
  }
}
