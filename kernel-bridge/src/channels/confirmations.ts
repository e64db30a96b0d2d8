/**
 * Finds out how far a client has got. A WebSocket ping travels behind the messages before it and its pong brings
 * the payload back, so a pong with a seq in it says: everything up to there has arrived. This works with every client; one that
 * acknowledges by itself is asked for signs of life only.
 *
 * What was sent but not yet confirmed is sent again after a reconnection. Clients that show `stream` output twice would
 * notice, so a ping follows soon after a message, and further ones while the first are on their way: what is in doubt is one
 * round trip and `delayMs`. Each ping costs a pong and a write of the position, so it does not follow at once.
 */
import type { WebSocket } from 'ws';
import { guarded } from '../platform/guard.js';

export interface ConfirmationOptions {
  /** A ping follows this long after a record, unless too many are on their way. */
  readonly delayMs: number;
  /** …or after this many bytes, in any case. */
  readonly bytes: number;
  readonly heartbeatMs: number;
  /** A client that has not answered for this long is gone. */
  readonly silenceMs: number;
  /** A client that is let go has so long to take what it was sent, the close frame at its end. */
  readonly farewellMs: number;
  /**
   * Records by which a client without acknowledgements is sent back behind its confirmed position when it returns. For clients
   * whose WebSocket answers pings although the page has not taken the messages before them.
   */
  readonly backStep: number;
}

export const CONFIRMATION_DEFAULTS: ConfirmationOptions = {
  delayMs: 50,
  bytes: 256 * 1024,
  heartbeatMs: 30_000,
  silenceMs: 90_000,
  farewellMs: 5_000,
  backStep: 0
};

/** More would tell little more, and pile up at a client that is stuck. */
const MAX_ON_THE_WAY = 8;

export interface ConfirmationEvents {
  /** seq of the last record that was given to the socket. */
  position(): number;
  confirmed(seq: number): void;
  /** Nothing was heard for `silenceMs`. */
  silent(): void;
  readonly failed: (error: unknown) => void;
}

export class Confirmations {
  readonly #heartbeat: NodeJS.Timeout;
  #delay: NodeJS.Timeout | null = null;
  #bytes = 0;
  /** Positions in the pings without a pong. One pong may answer several (RFC 6455, 5.5.3). */
  #onTheWay: number[] = [];
  /** Position in the newest ping. */
  #newestPing = 0;
  #last = 0;
  #stopped = false;
  #lastReceivedAt = performance.now();
  #beatAt = performance.now();

  constructor(
    private readonly socket: WebSocket,
    private readonly options: ConfirmationOptions,
    private readonly events: ConfirmationEvents /** Pongs count. False: the client says itself what it has. */,
    private readonly byPong = true
  ) {
    this.#heartbeat = setInterval(
      guarded(events.failed, () => this.#beat()),
      options.heartbeatMs
    );
    socket.on('pong', payload => this.#pong(payload));
    socket.on('message', () => (this.#lastReceivedAt = performance.now()));
  }

  /** The feed has passed a record of so many bytes. */
  moved(bytes: number): void {
    if (!this.byPong) return;
    this.#bytes += bytes;
    if (this.#bytes >= this.options.bytes) this.#ping();
    else if (this.#onTheWay.length < MAX_ON_THE_WAY) this.#pingSoon();
  }

  /** The client itself says what it has. */
  acknowledged(seq: number): void {
    // For something that was never sent it would lose messages; a late one changes nothing.
    if (!(seq > this.#last) || seq > this.events.position()) return;
    this.#last = seq;
    this.events.confirmed(seq);
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#heartbeat);
    if (this.#delay) clearTimeout(this.#delay);
    this.#delay = null;
  }

  #pingSoon(): void {
    if (!this.#stopped)
      this.#delay ??= setTimeout(
        guarded(this.events.failed, () => this.#ping()),
        this.options.delayMs
      );
  }

  #ping(): void {
    if (this.#delay) clearTimeout(this.#delay);
    this.#delay = null;
    this.#bytes = 0;
    if (this.socket.readyState !== this.socket.OPEN) return;
    this.#newestPing = this.events.position();
    if (this.byPong) this.#onTheWay.push(this.#newestPing);
    this.socket.ping(String(this.#newestPing));
  }

  #pong(payload: Buffer): void {
    this.#lastReceivedAt = performance.now();
    if (!this.byPong) return;
    const text = payload.toString('latin1');
    if (!/^\d{1,16}$/.test(text)) return;
    const seq = Number(text);
    this.#onTheWay = this.#onTheWay.filter(sent => sent > seq);
    this.acknowledged(seq);
    // What was sent while too many were on their way has to be asked about too.
    if (this.#onTheWay.length < MAX_ON_THE_WAY && this.#newestPing < this.events.position()) this.#pingSoon();
  }

  #beat(): void {
    const now = performance.now();
    // After a sleep of this machine, or a long turn of the event loop, what the client has said is still to be read.
    const wasAsleep = now - this.#beatAt > 2 * this.options.heartbeatMs;
    this.#beatAt = now;
    if (!wasAsleep && now - this.#lastReceivedAt > this.options.silenceMs) this.events.silent();
    else this.#ping();
  }
}
