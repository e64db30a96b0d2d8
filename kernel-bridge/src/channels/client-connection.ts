/** One client attached to one kernel: its socket, its messages, and its feed of the journal. */
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import type { RawData } from 'ws';
import type { GapRecord, JournalRecord } from '../journal/record.js';
import { BridgeError } from '@tpulab/platform/errors.js';
import type { Kernel } from '../kernels/kernel.js';
import { decodeLegacy, decodeV1, encodeV1, headerOf, WireError } from '../jupyter/index.js';
import { ClientFeed, type FeedLimits, type FeedState } from './client-feed.js';
import { CLOSE, type CloseCode } from '../http/upgrades.js';
import { type ConfirmationOptions, Confirmations } from './confirmations.js';
import { CLOSING, type GatheringWebSocket, Opcode } from '../http/gathering-websocket.js';
import { attachStatus, busyRequestOf, gapNotice } from './made-messages.js';
import type { ReaderView } from './reader-rules.js';
import { type ClientRequest, type Refusal, refusalFrames } from './refusal.js';
import type { BoundClient, LiveBound } from './live-bound.js';
import type { ResumePoint } from './resume-point.js';
import { type Framing, framingOf, madeFrame, noteFrame, numberOf, parseAck } from './subprotocols.js';

/** Limit of additional sessions per socket; some clients name no session in the URL. */
const MAX_FURTHER_SESSIONS = 16;

export interface ClientOptions {
  readonly socket: GatheringWebSocket;
  readonly stream: Duplex;
  readonly kernel: Kernel;
  /** Null for a client that named no `session_id`: it cannot resume. */
  readonly sessionId: string | null;
  /** Sessions of earlier pages that this client also represents: it gets their replies and stdin questions. */
  readonly predecessors: readonly string[];
  /** What a read-only client may see; null: the client is not read-only and sees everything. */
  readonly view: ReaderView | null;
  readonly position: number;
  /** Finds the position to resume from; null: it is `position`. */
  readonly findStart: (() => Promise<ResumePoint>) | null;
  readonly confirmation: ConfirmationOptions;
  readonly limits: FeedLimits;
  /** Limits the rate of outputs; all sockets of a session share it. */
  readonly bound: LiveBound | null;
  readonly log: Logger;
  readonly read: (fromSeq: number) => AsyncIterable<readonly JournalRecord[]>;
  /** Whether another attached client has this session id. */
  isClaimed(session: string): boolean;
  /** Why a request is not passed to the kernel; null when it is passed. */
  refuse(request: ClientRequest, owns: (session: string) => boolean): Refusal | null;
  /** Whether the request was sent by another route. */
  detour(request: ClientRequest): boolean;
  confirmed(client: ClientConnection, seq: number): void;
  congested(): void;
  /** The client was detached, though its socket may still be closing. */
  detached(client: ClientConnection): void;
  stateChanged(client: ClientConnection, state: FeedState): void;
}

export class ClientConnection {
  readonly sessionId: string | null;
  readonly isReader: boolean;
  /** The feed of this client; it receives the records that the keeper pushes. */
  readonly feed: ClientFeed;
  readonly #confirmations: Confirmations;
  readonly #furtherSessions = new Set<string>();
  readonly #framing: Framing;
  readonly #boundClient: BoundClient;
  #isStarted = false;
  #closedAt: number | null = null;

  constructor(private readonly options: ClientOptions) {
    const { socket, stream } = options;
    this.sessionId = options.sessionId;
    this.isReader = options.view !== null;
    this.#framing = framingOf(socket.protocol);
    this.#boundClient = {
      send: (seq, v1) => socket.gather(Opcode.binary, numberOf(seq), v1),
      unsent: () => socket.unsentBytes
    };
    options.bound?.attach(this.#boundClient);
    for (const session of options.predecessors)
      if (!options.isClaimed(session)) this.#furtherSessions.add(session);
    this.feed = new ClientFeed({
      socket,
      stream,
      framing: this.#framing,
      position: options.position,
      limits: options.limits,
      bound: options.bound,
      newest: () => options.kernel.lastSeq,
      read: options.read,
      owns: this.owns,
      view: options.view,
      moved: bytes => this.#confirmations.moved(bytes),
      stateChanged: state => this.#stateChanged(state),
      congested: () => options.congested(),
      missing: (gap, parent) => this.#sendGapNotice(gap, parent),
      failed: error => this.fail(error)
    });
    this.#confirmations = new Confirmations(
      socket,
      options.confirmation,
      {
        position: () => this.feed.position,
        confirmed: seq => options.confirmed(this, seq),
        silent: () => this.#silent(),
        failed: error => this.fail(error)
      },
      this.#framing !== 'numbered'
    );
    socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
    // Errors of the socket (a frame too large, a reset) close it; `close` follows and is handled by the owner.
    socket.on('error', error => options.log.debug({ err: error }, 'error on a channels socket'));
    // A client whose closing handshake has begun counts as detached, though its connection may end much later.
    socket.on(CLOSING, () => {
      if (this.#closedAt === null) this.#peerClosed();
    });
    socket.on('close', code => this.#closed(code));
  }

  /** Whether this client represents a session. */
  readonly owns = (session: string): boolean =>
    session === this.sessionId || this.#furtherSessions.has(session);

  get unsentBytes(): number {
    return this.options.socket.unsentBytes;
  }

  /** Whether the client itself acknowledges received records. */
  get acknowledges(): boolean {
    return this.#framing === 'numbered';
  }

  /** Records that are still to be replayed. */
  get pending(): number {
    return Math.max(0, this.options.kernel.lastSeq - this.feed.position);
  }

  async start(): Promise<void> {
    const { kernel, log, socket, findStart } = this.options;
    try {
      if (findStart !== null) this.feed.startAt(await findStart());
    } catch (error) {
      log.warn({ err: error }, 'what a client has is not known; it may be sent the last moments twice');
    }
    if (this.acknowledges) {
      socket.send(noteFrame({ op: 'attached', position: this.feed.position, newest: kernel.lastSeq }));
    }
    try {
      // Nothing may be awaited between reading the state and sending it: an idle status could arrive in between.
      const now = await kernel.currentSnapshot();
      // A reader is not notified of another client's request, not even that one is running.
      const isSeen = this.sees(busyRequestOf(now));
      const snapshot = now && (isSeen ? now : { ...now, executionState: 'idle' as const, busyParent: null });
      const status = snapshot && attachStatus(snapshot);
      if (status) this.sendMade(status);
    } catch (error) {
      log.warn({ err: error }, 'the state of the kernel is not known; the client is not told it');
    }
    this.#isStarted = true;
    this.feed.wake();
  }

  /** Called when records may exist that were not pushed, because the connection to the keeper was re-established. */
  wake(): void {
    if (this.#isStarted) this.feed.wake();
  }

  /** Whether the client may see the request with this id. */
  sees(msgId: string | null): boolean {
    const { view } = this.options;
    return view === null || msgId === null || view.showsRequest(msgId);
  }

  /** Sends, as a v1 frame, a message that is not in the journal. */
  sendMade(frame: Buffer): void {
    this.options.socket.send(madeFrame(this.#framing, frame));
  }

  #sendGapNotice(gap: GapRecord, parent: Buffer | null): void {
    const { kernel, log } = this.options;
    log.warn({ ...gap, type: undefined }, 'messages are missing for a client');
    const notice = gapNotice(kernel.snapshot, gap, parent?.toString('utf8') ?? (this.isReader ? '{}' : null));
    if (notice) this.sendMade(notice);
  }

  close({ code, reason }: CloseCode): void {
    this.stop();
    this.#closedAt = this.feed.position;
    this.options.socket.close(code, reason);
  }

  /** Disconnects a client that reads too slowly. It reconnects and continues after its last confirmed record. */
  disconnectSlow(): void {
    const { socket, confirmation, log } = this.options;
    log.warn({ unsentBytes: this.unsentBytes, pending: this.pending }, 'a client is too slow and is let go');
    this.close(CLOSE.tooSlow);
    const timer = setTimeout(() => socket.terminate(), confirmation.closeGraceMs);
    socket.on('close', () => clearTimeout(timer));
    this.options.detached(this);
  }

  /** Stops this object; its socket is closed or about to be. */
  stop(): void {
    this.#confirmations.stop();
    this.feed.stop();
    this.options.bound?.detach(this.#boundClient);
  }

  /** No message arrived for a long time: the network is lost, or the client does not read. */
  #silent(): void {
    if (this.unsentBytes > 0) this.disconnectSlow();
    else this.options.socket.terminate();
  }

  #peerClosed(): void {
    this.stop();
    this.options.detached(this);
  }

  /** A client that answers our close frame has read everything before it. */
  #closed(code: number): void {
    if (this.#closedAt !== null && code !== 1006 && !this.acknowledges) {
      this.#confirmations.acknowledged(this.#closedAt);
    }
    this.stop();
    this.options.detached(this);
  }

  #stateChanged(state: FeedState): void {
    if (state === 'live' && this.acknowledges) {
      this.options.socket.send(noteFrame({ op: 'live', position: this.feed.position }));
    }
    this.options.stateChanged(this, state);
  }

  #receive(data: RawData, isBinary: boolean): void {
    const { kernel, socket, log } = this.options;
    try {
      const bytes = Buffer.isBuffer(data)
        ? data
        : Buffer.concat(Array.isArray(data) ? data : [Buffer.from(data)]);
      if (!isBinary && this.acknowledges) {
        this.#confirmations.acknowledged(parseAck(bytes.toString('utf8')));
        return;
      }
      const { frame, request } = this.#checked(bytes, isBinary);
      const refusal = this.options.refuse(request, this.owns);
      if (refusal) {
        log.warn({ code: refusal.code, msgType: request.header.msg_type }, 'a request was refused');
        const { kernelSession } = kernel.snapshot;
        for (const made of refusalFrames(request, refusal, kernelSession)) this.sendMade(made);
        return;
      }
      if (this.options.detour(request)) return;
      if (!kernel.send(request.header.msg_id, frame)) {
        // The kernel's keeper cannot keep up: read nothing more from this client until it can.
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
        this.fail(error);
      }
    }
  }

  /** The frame to pass on, after checking everything that the kernel's keeper relies on. */
  #checked(bytes: Buffer, isBinary: boolean): { frame: Buffer; request: ClientRequest } {
    const isV1 = this.#framing !== 'legacy' && isBinary;
    const message = isV1 ? decodeV1(bytes) : decodeLegacy(isBinary ? bytes : bytes.toString('utf8'));
    if (message.channel === 'iopub') throw new WireError('channel_unknown', 'Clients cannot write to iopub.');
    const header = headerOf(message);
    this.#learnSession(header.session);
    return { frame: isV1 ? bytes : encodeV1(message), request: { message, header, bytes: bytes.length } };
  }

  #learnSession(session: string): void {
    if (this.isReader || this.owns(session)) return;
    if (this.#furtherSessions.size < MAX_FURTHER_SESSIONS && !this.options.isClaimed(session)) {
      this.#furtherSessions.add(session);
    }
  }

  /** The client is disconnected, and reconnects. */
  fail(error: unknown): void {
    this.options.log.error({ err: error }, 'a client could not be served');
    this.stop();
    const { code, reason } = CLOSE.failed;
    this.options.socket.close(code, reason);
  }
}
