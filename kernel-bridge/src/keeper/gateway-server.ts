/**
 * Listens for gateways, and sends them written records and the state of the kernel. Several may be connected: an ending one and
 * its successor.
 */
import { rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { JournalError } from '../journal/journal-error.js';
import type { StoredRecord, WrittenBatch } from '../journal/record-batch.js';
import type { KernelSnapshot, LaunchDescription, TelemetryRecord } from '../keeper-protocol/contract.js';
import { largeRecordRef } from '../keeper-protocol/stored-record.js';
import { GatewayLink, prepareBatch, type TelemetrySource } from './gateway-link.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import {
  type Command,
  type CommandReplies,
  type KeeperEvent,
  parseCommand
} from '../keeper-protocol/messages.js';
import { listenPrivately } from './telemetry-socket.js';
import type { KeeperLog } from './keeper-log.js';
import type { ConnectionInfo } from './connection-file.js';
import type { KernelFiles } from './kernel-process.js';

/** Normally there are at most two; more mean that a program connects in a loop. */
const MAX_GATEWAYS = 16;

/** How long a link may take to send its last reply when the keeper ends. */
const LAST_REPLY_MS = 1_000;

interface GatewayRequests {
  /** The first message to a gateway. */
  hello(): KeeperEvent;
  snapshot(): KernelSnapshot;
  /** Answers everything but `subscribe` and `telemetry`, which belong to a link. */
  command(command: Exclude<Command, { op: 'subscribe' | 'telemetry' }>): Promise<object>;
  subscribe(): CommandReplies['subscribe'];
  telemetryRange(): CommandReplies['telemetry'];
  /** A v1 frame of a client, from any gateway. */
  readonly message: (frame: Buffer) => void;
}

export class GatewayServer implements AsyncDisposable, KeeperListener {
  readonly #links = new Set<GatewayLink>();
  readonly #server: Server;
  #journalFault: { readonly code: string; readonly message: string } | null = null;
  #stateDue: NodeJS.Immediate | null = null;

  /** No gateway can connect before `listen`. */
  constructor(
    private readonly path: string,
    private readonly requests: GatewayRequests,
    telemetry: TelemetrySource,
    private readonly log: KeeperLog
  ) {
    this.#server = createServer(socket => {
      const link = new GatewayLink(socket, telemetry, {
        command: (from, body) => void this.#command(from, body),
        message: requests.message,
        closed: (closed, error) => this.#closed(closed, error)
      });
      this.#links.add(link);
      link.event(requests.hello());
      if (this.#journalFault !== null) link.event({ event: 'journal', fault: this.#journalFault });
    });
    this.#server.maxConnections = MAX_GATEWAYS;
  }

  listen(): Promise<void> {
    return listenPrivately(this.#server, this.path, this.log);
  }

  written(batch: WrittenBatch): void {
    prepareBatch(batch);
    // One system call per link: the changed state is sent with the records that led to it.
    const snapshot = this.#takeDueState();
    for (const link of this.#links) link.records(batch, snapshot);
  }

  stored(record: StoredRecord): void {
    const note = largeRecordRef(record);
    const snapshot = this.#takeDueState();
    for (const link of this.#links) link.stored(note, snapshot);
  }

  /** Called once for all changes of one turn, and not before the records of that turn. */
  changed(): void {
    this.#stateDue ??= setImmediate(() => {
      const snapshot = this.#takeDueState();
      if (snapshot !== null) for (const link of this.#links) link.state(snapshot);
    });
  }

  journalFault(fault: JournalError | null): void {
    this.#journalFault = fault === null ? null : { code: fault.code, message: fault.message };
    for (const link of this.#links) link.event({ event: 'journal', fault: this.#journalFault });
  }

  telemetryAdded(record: TelemetryRecord): void {
    for (const link of this.#links) link.telemetryAdded(record);
  }

  /** Resolves when every gateway has been sent the current state. */
  async stateSent(): Promise<void> {
    if (this.#stateDue !== null) await nextTurn();
  }

  /** Ends the links after their pending data, and removes the socket. */
  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()));
    const timer = setTimeout(() => this.#links.forEach(link => link.destroy()), LAST_REPLY_MS);
    this.#links.forEach(link => link.end());
    await closed;
    clearTimeout(timer);
    await rm(this.path, { force: true });
  }

  #takeDueState(): KernelSnapshot | null {
    if (this.#stateDue === null) return null;
    clearImmediate(this.#stateDue);
    this.#stateDue = null;
    return this.#links.size === 0 ? null : this.requests.snapshot();
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

/** The parts of a `KernelKeeper`, and its listener. */
interface KeeperListener {
  /** Records are in the file. */
  written(batch: WrittenBatch): void;
  /** The same for a large one. */
  stored(record: StoredRecord): void;
  /** A field of `snapshot` other than the last activity and the last record has changed. */
  changed(): void;
  journalFault(fault: JournalError | null): void;
}

/** A kernel process whose keeper has ended. */
export interface Orphan {
  readonly pid: number;
  /** Its `processStart`. */
  readonly start: string;
}

export interface KeeperParts {
  readonly kernelDir: string;
  readonly launch: LaunchDescription;
  readonly connection: ConnectionInfo;
  readonly files: KernelFiles;
  readonly journalDir: string;
  readonly listener: KeeperListener;
  readonly processChanged: (pid: number | null) => void;
  readonly log: KeeperLog;
}
