/**
 * One client's share of one kernel's journal: every record after its position, in order, once.
 *
 * A feed is *live* while it receives records as the keeper pushes them, and *replaying* while it reads them from the
 * journal's files. It starts replaying, becomes live in the same turn of the event loop in which it reaches the
 * newest record, and returns to the files when its socket is congested or a record is missing. So the transition
 * neither skips nor repeats a record, and a slow client costs disk reads, not memory.
 */
import type { Duplex } from 'node:stream';
import { once } from 'node:events';
import type { GapRecord, JournalRecord } from '../journal/index.js';
import { type GatheringWebSocket, Opcode } from '../http/gathering-websocket.js';
import type { LiveBound } from './live-bound.js';
import { OutgoingMessage } from './outgoing-message.js';
import type { ResumePoint } from './resume-point.js';
import { type Framing, numberOf } from './subprotocols.js';

export interface FeedLimits {
  /** Unsent bytes above which a live client returns to the files. */
  readonly congestedBytes: number;
  /** A replaying client reads on when its unsent bytes fall to this. */
  readonly refillBytes: number;
}

export const FEED_LIMITS: FeedLimits = { congestedBytes: 4 * 1024 * 1024, refillBytes: 512 * 1024 };

export type FeedState = 'replaying' | 'live' | 'detached';

interface FeedOptions {
  readonly socket: GatheringWebSocket;
  /** The stream under the WebSocket, for back-pressure. */
  readonly stream: Duplex;
  readonly framing: Framing;
  /** seq of the last record that the client has. */
  readonly position: number;
  readonly limits?: FeedLimits;
  /** Limits the rate of outputs for a page; null for a client that gets every message. */
  readonly bound?: LiveBound | null;
  /** seq of the newest record in the journal, as far as the gateway knows. */
  newest(): number;
  /** Records from `fromSeq` on; a gap record replaces lost records. */
  readonly read: (fromSeq: number) => AsyncIterable<readonly JournalRecord[]>;
  /** Whether replies to this `header.session` are for this client. */
  owns(session: string): boolean;
  /** Filter for a read-only client; null: the client sees everything. */
  readonly view?: { shows(record: JournalRecord): boolean } | null;
  /** Called after each record that the feed has passed, whether or not it was for this client. */
  moved(bytes: number): void;
  stateChanged(state: FeedState): void;
  /**
   * Messages are missing at this place in the stream; the client is notified. `parent` is the header (JSON) of the request
   * whose output comes next, null when none has come yet.
   */
  missing(gap: GapRecord, parent: Buffer | null): void;
  /** The socket buffers more than `congestedBytes`. */
  congested(): void;
  failed(error: unknown): void;
}

export class ClientFeed {
  readonly #limits: FeedLimits;
  readonly #abort = new AbortController();
  #position: number;
  /** By channel: the client has every message up to this record, although its position is before it. */
  #has: ReadonlyMap<number, number> = new Map();
  #state: FeedState = 'detached';
  /** Gaps to be reported with the next output, beside which they are shown. */
  readonly #unreportedGaps: GapRecord[] = [];

  constructor(private readonly options: FeedOptions) {
    this.#limits = options.limits ?? FEED_LIMITS;
    this.#position = options.position;
  }

  /** seq of the last record that was written to the socket, or skipped because it is not for this client. */
  get position(): number {
    return this.#position;
  }

  get state(): FeedState {
    return this.#state;
  }

  /** Replaces the initial position before the feed begins. */
  startAt({ position, has }: ResumePoint): void {
    this.#position = position;
    this.#has = has;
  }

  /** Begins reading; also called when records may exist that were never pushed. */
  wake(): void {
    if (this.#state === 'replaying' || this.#abort.signal.aborted) return;
    if (this.#position < this.options.newest()) void this.#replay();
    else if (this.#state !== 'live') this.#enter('live');
  }

  /** Handles a record that the keeper has just pushed. */
  live(message: OutgoingMessage): void {
    if (this.#state !== 'live' || message.seq <= this.#position) return;
    const missing = message.seq !== this.#position + 1 || message.isAbridged;
    if (missing || this.#isCongested) void this.#replay();
    else this.#deliver(message);
  }

  /** Whether a record pushed now would be sent. */
  get isWaiting(): boolean {
    return this.#state === 'live' && !this.#isCongested;
  }

  get #isCongested(): boolean {
    return this.options.socket.unsentBytes > this.#limits.congestedBytes;
  }

  stop(): void {
    this.#abort.abort();
    if (this.#state !== 'detached') this.#enter('detached');
  }

  async #replay(): Promise<void> {
    this.#enter('replaying');
    try {
      while (!this.#abort.signal.aborted) {
        await this.#refill();
        if (this.#position >= this.options.newest()) {
          this.#enter('live');
          return;
        }
        await this.#readNext();
      }
    } catch (error) {
      if (!this.#abort.signal.aborted) this.options.failed(error);
    }
  }

  async #readNext(): Promise<void> {
    const before = this.#position;
    for await (const records of this.options.read(this.#position + 1)) {
      for (const record of records) {
        if (this.#abort.signal.aborted) return;
        if (record.seq > this.#position) this.#deliver(new OutgoingMessage(record));
      }
      await this.#refill();
      if (this.#position >= this.options.newest()) return;
    }
    if (this.#position === before) {
      throw new Error(
        `the journal has no record after ${before}, but ${this.options.newest()} was announced`
      );
    }
  }

  /**
   * Waits until the socket has sent most of its data. Below its own high-water mark (64 KiB on Linux from
   * Node 22 on, 16 KiB before) a stream never emits `drain`, so the feed does not wait for so little.
   */
  async #refill(): Promise<void> {
    const { stream } = this.options;
    const isFull = (): boolean =>
      stream.writableNeedDrain && stream.writableLength > this.#limits.refillBytes;
    while (isFull() && !this.#abort.signal.aborted) {
      await once(stream, 'drain', { signal: this.#abort.signal });
    }
  }

  #deliver(message: OutgoingMessage): void {
    // A gap record covers all the records that it names.
    this.#position = Math.max(message.seq, message.gap?.toSeq ?? 0);
    if (message.gap) this.#unreportedGaps.push(message.gap);
    const { view = null } = this.options;
    const isAddressed = view === null ? this.#isAddressed(message) : view.shows(message.record);
    if (this.#unreportedGaps.length > 0)
      this.#reportGaps(view !== null && !isAddressed ? null : message.outputOf);
    let bytes = 0;
    if (isAddressed) {
      const { bound } = this.options;
      if (bound) bound.take(message);
      else bytes = this.#send(message);
      if (this.#isCongested) this.options.congested();
    }
    this.options.moved(bytes);
  }

  /** A live client is notified of a gap immediately; a client that is catching up, with the next output. */
  #reportGaps(parent: Buffer | null): void {
    if (!parent && this.#state !== 'live') return;
    if (this.#unreportedGaps.length > 0) this.options.bound?.flush();
    for (const gap of this.#unreportedGaps.splice(0)) this.options.missing(gap, parent);
  }

  #isAddressed({ addressee, seq, channel }: OutgoingMessage): boolean {
    if (this.#has.size > 0 && seq <= (this.#has.get(channel) ?? 0)) return false;
    if (addressee.to === 'everyone') return true;
    return addressee.to === 'session' && this.options.owns(addressee.session);
  }

  /** Returns the number of bytes sent. */
  #send(message: OutgoingMessage): number {
    const { socket, framing } = this.options;
    if (framing === 'legacy') {
      const { legacy } = message;
      if (legacy === null) return 0;
      socket.gather(legacy.isText ? Opcode.text : Opcode.binary, null, legacy.bytes);
      return legacy.bytes.length;
    }
    socket.gather(Opcode.binary, framing === 'numbered' ? numberOf(message.seq) : null, message.v1);
    return message.v1.length;
  }

  #enter(state: FeedState): void {
    this.#state = state;
    this.options.stateChanged(state);
    this.#reportGaps(null);
  }
}
