/** One client attached to one kernel: its socket, what it says, and its feed of the journal. */
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import type { GapRecord, JournalRecord } from '../journal/record.js';
import { BridgeError } from '../kernels/errors.js';
import type { Kernel } from '../kernels/kernel.js';
import {
  decodeLegacy,
  decodeV1,
  encodeLegacy,
  encodeV1,
  type KernelMessage,
  parseHeader,
  PART,
  WireError
} from '../wire/index.js';
import { ClientFeed, type FeedLimits, type FeedState } from './client-feed.js';
import { CLOSE, type CloseCode } from './close-codes.js';
import { type ConfirmationOptions, Confirmations } from './confirmations.js';
import { busyStatus, gapNotice } from './made-messages.js';
import type { OutgoingMessage } from './outgoing-message.js';

export const V1_SUBPROTOCOL = 'v1.kernel.websocket.jupyter.org';

/** Sessions that a socket may speak for beside its own; some clients name none in the URL. */
const MAX_FURTHER_SESSIONS = 16;

export interface ClientOptions {
  readonly socket: WebSocket;
  readonly stream: Duplex;
  readonly kernel: Kernel;
  /** Null for a client that named no `session_id`: it cannot resume. */
  readonly sessionId: string | null;
  readonly position: number;
  readonly confirmation: ConfirmationOptions;
  readonly limits: FeedLimits;
  readonly log: Logger;
  readonly read: (fromSeq: number) => AsyncIterable<readonly JournalRecord[]>;
  /** Whether another attached client has this session id. */
  isTaken(session: string): boolean;
  confirmed(seq: number): void;
  stateChanged(client: ClientConnection, state: FeedState): void;
}

export class ClientConnection {
  readonly sessionId: string | null;
  readonly #options: ClientOptions;
  readonly #feed: ClientFeed;
  readonly #confirmations: Confirmations;
  readonly #furtherSessions = new Set<string>();
  readonly #framing: 'v1' | 'legacy';
  #isStarted = false;

  constructor(options: ClientOptions) {
    const { socket, stream } = options;
    this.#options = options;
    this.sessionId = options.sessionId;
    this.#framing = socket.protocol === V1_SUBPROTOCOL ? 'v1' : 'legacy';
    this.#feed = new ClientFeed({
      socket,
      stream,
      framing: this.#framing,
      position: options.position,
      limits: options.limits,
      newest: () => options.kernel.lastSeq,
      read: options.read,
      owns: session => session === this.sessionId || this.#furtherSessions.has(session),
      moved: bytes => this.#confirmations.moved(bytes),
      stateChanged: state => options.stateChanged(this, state),
      missing: (gap, parent) => this.#tellOf(gap, parent),
      failed: error => this.#fail(error)
    });
    this.#confirmations = new Confirmations(
      socket,
      options.confirmation,
      () => this.#feed.position,
      seq => options.confirmed(seq)
    );
    socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
    // Errors of the socket (a frame too large, a reset) close it; `close` follows and is handled by the owner.
    socket.on('error', error => options.log.debug({ err: error }, 'error on a channels socket'));
  }

  get state(): FeedState {
    return this.#feed.state;
  }

  get position(): number {
    return this.#feed.position;
  }

  /** Records that are still to be replayed. */
  get pending(): number {
    return Math.max(0, this.#options.kernel.lastSeq - this.#feed.position);
  }

  async start(): Promise<void> {
    const { kernel, log } = this.#options;
    try {
      // Nothing may be awaited between the answer and the message: an idle could come in between.
      const snapshot = await kernel.currentSnapshot();
      const busy = snapshot && busyStatus(snapshot, new Date());
      if (busy) this.sendMade(busy);
    } catch (error) {
      log.warn(
        { err: error },
        'the state of the kernel is not known; the client is not told whether it is busy'
      );
    }
    this.#isStarted = true;
    this.#feed.wake();
  }

  live(message: OutgoingMessage): void {
    this.#feed.live(message);
  }

  /** Records may exist that were not pushed, because the connection to the keeper was made anew. */
  wake(): void {
    if (this.#isStarted) this.#feed.wake();
  }

  /** Sends a message that is not in the journal, as a v1 frame. */
  sendMade(frame: Buffer): void {
    this.#options.socket.send(this.#framing === 'v1' ? frame : encodeLegacy(decodeV1(frame)));
  }

  #tellOf(gap: GapRecord, parent: Buffer | null): void {
    const { kernel, log } = this.#options;
    log.warn({ ...gap, type: undefined }, 'messages are missing for a client');
    const notice = gapNotice(kernel.snapshot, gap, parent?.toString('utf8') ?? null, new Date());
    if (notice) this.sendMade(notice);
  }

  close({ code, reason }: CloseCode): void {
    this.stop();
    this.#options.socket.close(code, reason);
  }

  /** Ends what this object does; the socket is closed or about to be. */
  stop(): void {
    this.#confirmations.stop();
    this.#feed.stop();
  }

  #receive(data: RawData, isBinary: boolean): void {
    const { kernel, socket, log } = this.#options;
    try {
      const bytes = Buffer.isBuffer(data)
        ? data
        : Buffer.concat(Array.isArray(data) ? data : [Buffer.from(data)]);
      const frame = this.#checked(bytes, isBinary);
      if (!kernel.send(frame)) {
        // The kernel's keeper does not keep up: take nothing more from this client until it does.
        socket.pause();
        kernel.drain().then(
          () => socket.resume(),
          () => socket.resume()
        );
      }
    } catch (error) {
      if (error instanceof WireError) {
        log.warn({ code: error.code, detail: error.message }, 'malformed frame from a client');
        this.close(CLOSE.malformedFrame);
      } else if (error instanceof BridgeError) {
        log.warn({ code: error.code }, 'message for a kernel that cannot be reached');
      } else {
        this.#fail(error);
      }
    }
  }

  /** The frame to pass on, after everything that the kernel's keeper relies on has been checked. */
  #checked(bytes: Buffer, isBinary: boolean): Buffer {
    const isV1 = this.#framing === 'v1' && isBinary;
    const message = isV1 ? decodeV1(bytes) : decodeLegacy(isBinary ? bytes : bytes.toString('utf8'));
    if (message.channel === 'iopub') throw new WireError('channel_unknown', 'Clients cannot write to iopub.');
    this.#learnSession(message);
    return isV1 ? bytes : encodeV1(message);
  }

  #learnSession(message: KernelMessage): void {
    const { session } = parseHeader(message.parts[PART.header] ?? Buffer.alloc(0));
    if (session === this.sessionId || this.#furtherSessions.has(session)) return;
    if (this.#furtherSessions.size < MAX_FURTHER_SESSIONS && !this.#options.isTaken(session)) {
      this.#furtherSessions.add(session);
    }
  }

  #fail(error: unknown): void {
    this.#options.log.error({ err: error }, 'a client could not be served');
    this.stop();
    this.#options.socket.close(1011, 'internal error of the gateway');
  }
}
