/**
 * Finds out which records a client has received. A WebSocket ping travels behind earlier messages and its pong returns the
 * payload, so a pong with a seq in it confirms everything up to that record. This works with every client; a client that
 * acknowledges records itself is only pinged for liveness.
 *
 * Unconfirmed records are sent again after a reconnection. A client that shows `stream` output twice would show the
 * repetition, so a ping follows soon after a message, and further pings while the first are in flight: the uncertainty is
 * one round trip plus `delayMs`. Each ping costs a pong and a write of the position, so it does not follow immediately.
 */
import type { WebSocket } from 'ws';
import { guarded } from '@tpulab/platform/guard.js';

export interface ConfirmationOptions {
  /** A ping follows this long after a record, unless too many are in flight. */
  readonly delayMs: number;
  /** …or after this many bytes, in any case. */
  readonly bytes: number;
  readonly heartbeatMs: number;
  /** A client that has not answered for this long is considered lost. */
  readonly silenceMs: number;
  /** How long a client that is being disconnected has to read the remaining data, including the close frame. */
  readonly closeGraceMs: number;
  /**
   * How many records before its confirmed position a client without acknowledgements resumes. For clients whose WebSocket
   * answers pings before the page has processed earlier messages.
   */
  readonly backStep: number;
}

export const CONFIRMATION_DEFAULTS: ConfirmationOptions = {
  delayMs: 50,
  bytes: 256 * 1024,
  heartbeatMs: 30_000,
  silenceMs: 90_000,
  closeGraceMs: 5_000,
  backStep: 0
};

/** More pings would add little information, and would pile up at a stalled client. */
const MAX_PENDING_PINGS = 8;

interface ConfirmationEvents {
  /** seq of the last record that was written to the socket. */
  position(): number;
  confirmed(seq: number): void;
  /** No message was received for `silenceMs`. */
  silent(): void;
  readonly failed: (error: unknown) => void;
}

export class Confirmations {
  readonly #heartbeat: NodeJS.Timeout;
  #delay: NodeJS.Timeout | null = null;
  #bytes = 0;
  /** Positions in pings that are still without a pong. One pong may answer several (RFC 6455, 5.5.3). */
  #pendingPings: number[] = [];
  /** Position in the newest ping. */
  #newestPing = 0;
  #last = 0;
  #stopped = false;
  #lastReceivedAt = performance.now();
  #lastHeartbeatAt = performance.now();

  constructor(
    private readonly socket: WebSocket,
    private readonly options: ConfirmationOptions,
    private readonly events: ConfirmationEvents,
    /** True: pongs count. False: only the client's own acknowledgements count. */
    private readonly byPong = true
  ) {
    this.#heartbeat = setInterval(
      guarded(events.failed, () => this.#beat()),
      options.heartbeatMs
    );
    socket.on('pong', payload => this.#pong(payload));
    socket.on('message', () => (this.#lastReceivedAt = performance.now()));
  }

  /** The feed has passed a record of this many bytes. */
  moved(bytes: number): void {
    if (!this.byPong) return;
    this.#bytes += bytes;
    if (this.#bytes >= this.options.bytes) this.#ping();
    else if (this.#pendingPings.length < MAX_PENDING_PINGS) this.#pingSoon();
  }

  /** The client itself acknowledges a record. */
  acknowledged(seq: number): void {
    // A number that was never sent would lose messages; an outdated one changes nothing.
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
    if (this.byPong) this.#pendingPings.push(this.#newestPing);
    this.socket.ping(String(this.#newestPing));
  }

  #pong(payload: Buffer): void {
    this.#lastReceivedAt = performance.now();
    if (!this.byPong) return;
    const text = payload.toString('latin1');
    if (!/^\d{1,16}$/.test(text)) return;
    const seq = Number(text);
    this.#pendingPings = this.#pendingPings.filter(sent => sent > seq);
    this.acknowledged(seq);
    // Records that were sent while too many pings were in flight need a ping too.
    if (this.#pendingPings.length < MAX_PENDING_PINGS && this.#newestPing < this.events.position())
      this.#pingSoon();
  }

  #beat(): void {
    const now = performance.now();
    // After a sleep of this machine, or a long turn of the event loop, messages of the client are still unread.
    const wasAsleep = now - this.#lastHeartbeatAt > 2 * this.options.heartbeatMs;
    this.#lastHeartbeatAt = now;
    if (!wasAsleep && now - this.#lastReceivedAt > this.options.silenceMs) this.events.silent();
    else this.#ping();
  }
}
