/** The clients of one kernel: who is attached, and passing on what its keeper pushes. */
import path from 'node:path';
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import type { WebSocket } from 'ws';
import { JournalReader } from '../journal/index.js';
import type { Kernel } from '../kernels/kernel.js';
import { ClientConnection } from './client-connection.js';
import type { FeedLimits, FeedState } from './client-feed.js';
import { CLOSE, type CloseCode } from './close-codes.js';
import type { ConfirmationOptions } from './confirmations.js';
import { deadStatus } from './made-messages.js';
import { OutgoingMessage } from './outgoing-message.js';
import { PositionStore } from './position-store.js';

/** A change of one client, for `/bridge/v1/events`. */
export interface ClientChange {
  readonly kernelId: string;
  readonly sessionId: string;
  readonly state: FeedState;
  readonly pending: number;
}

export interface KernelChannelsOptions {
  readonly kernel: Kernel;
  readonly confirmation: ConfirmationOptions;
  readonly limits: FeedLimits;
  readonly log: Logger;
  clientChanged(change: ClientChange): void;
}

export interface AttachRequest {
  readonly socket: WebSocket;
  readonly stream: Duplex;
  readonly sessionId: string | null;
  /** The client says itself what it has. */
  readonly resume: number | null;
}

export class KernelChannels {
  readonly #options: KernelChannelsOptions;
  readonly #clients = new Set<ClientConnection>();
  readonly #bySession = new Map<string, ClientConnection>();
  readonly #positions: PositionStore;
  readonly #journal: JournalReader;
  readonly #listening: Disposable;
  #saidUnreachable = false;

  constructor(options: KernelChannelsOptions) {
    this.#options = options;
    this.#positions = new PositionStore(path.join(options.kernel.directory, 'positions'));
    this.#journal = new JournalReader(options.kernel.journalDir);
    this.#listening = options.kernel.listen({
      record: record => {
        if (this.#clients.size === 0) return;
        const message = new OutgoingMessage(record);
        for (const client of this.#clients) client.live(message);
      },
      changed: () => this.#kernelChanged(),
      removed: () => this.close(CLOSE.kernelRemoved)
    });
  }

  /** The clients that are attached and have a session id. */
  clients(): ClientChange[] {
    return [...this.#bySession].map(([sessionId, client]) => this.#describe(sessionId, client, client.state));
  }

  attach({ socket, stream, sessionId, resume }: AttachRequest): void {
    const { kernel, confirmation, limits, log } = this.#options;
    const stale = sessionId === null ? undefined : this.#bySession.get(sessionId);
    if (stale) {
      this.#forget(stale);
      stale.close(CLOSE.replaced);
    }
    const position = this.#startOf(sessionId, resume);
    const client = new ClientConnection({
      socket,
      stream,
      kernel,
      sessionId,
      position,
      confirmation,
      limits,
      log: log.child({ kernelId: kernel.id, clientId: sessionId }),
      read: fromSeq => this.#journal.readAcross(fromSeq, { newest: () => kernel.lastSeq }),
      isTaken: session => this.#bySession.has(session),
      confirmed: seq => {
        if (sessionId !== null) this.#positions.set(sessionId, seq);
      },
      stateChanged: (changed, state) => this.#clientChanged(changed, state)
    });
    // Kept at once: a client that is cut off before its first pong must not start at live when it returns.
    if (sessionId !== null) {
      this.#positions.set(sessionId, position);
      this.#bySession.set(sessionId, client);
    }
    this.#clients.add(client);
    socket.on('close', () => {
      client.stop();
      this.#forget(client);
    });
    void client.start();
    kernel.connections = this.#clients.size;
  }

  close(code: CloseCode): void {
    this.#listening[Symbol.dispose]();
    for (const client of [...this.#clients]) client.close(code);
    this.#positions.close();
  }

  /** A position past the journal's end (of another journal, say) would silence the client for long. */
  #startOf(sessionId: string | null, resume: number | null): number {
    const newest = this.#options.kernel.lastSeq;
    const known = sessionId === null ? undefined : this.#positions.get(sessionId);
    return Math.min(resume ?? known ?? newest, newest);
  }

  #forget(client: ClientConnection): void {
    if (!this.#clients.delete(client)) return;
    const { sessionId } = client;
    if (sessionId !== null && this.#bySession.get(sessionId) === client) this.#bySession.delete(sessionId);
    if (!this.#options.kernel.isRemoved) this.#options.kernel.connections = this.#clients.size;
  }

  #kernelChanged(): void {
    const { kernel } = this.#options;
    if (kernel.isUnreachable && !this.#saidUnreachable) {
      const frame = deadStatus(kernel.snapshot, new Date());
      if (frame) for (const client of this.#clients) client.sendMade(frame);
    }
    this.#saidUnreachable = kernel.isUnreachable;
    for (const client of this.#clients) client.wake();
  }

  #clientChanged(client: ClientConnection, state: FeedState): void {
    if (client.sessionId === null) return;
    this.#options.clientChanged(this.#describe(client.sessionId, client, state));
  }

  #describe(sessionId: string, client: ClientConnection, state: FeedState): ClientChange {
    return { kernelId: this.#options.kernel.id, sessionId, state, pending: client.pending };
  }
}
