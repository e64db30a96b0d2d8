/**
 * Finds out how far a client has got. A WebSocket ping travels behind the messages before it and its pong brings
 * the payload back, so a pong with a seq in it says: everything up to there has arrived. This works with every client.
 *
 * What was sent but not yet confirmed is sent again after a reconnection. Clients that show `stream` output twice would
 * notice, so pings are frequent while data flows: the step back is a fraction of a second at most.
 */
import type { WebSocket } from 'ws';

export interface ConfirmationOptions {
  /** A ping follows at the latest this long after a record. */
  readonly delayMs: number;
  /** …or after this many bytes. */
  readonly bytes: number;
  readonly heartbeatMs: number;
  /** A client that has not answered for this long is gone. */
  readonly silenceMs: number;
}

export const CONFIRMATION_DEFAULTS: ConfirmationOptions = {
  delayMs: 50,
  bytes: 256 * 1024,
  heartbeatMs: 30_000,
  silenceMs: 90_000
};

export class Confirmations {
  readonly #socket: WebSocket;
  readonly #options: ConfirmationOptions;
  readonly #position: () => number;
  readonly #confirmed: (seq: number) => void;
  readonly #heartbeat: NodeJS.Timeout;
  #delay: NodeJS.Timeout | null = null;
  #bytes = 0;
  #last = 0;
  #heard = performance.now();

  constructor(
    socket: WebSocket,
    options: ConfirmationOptions,
    position: () => number,
    confirmed: (seq: number) => void
  ) {
    this.#socket = socket;
    this.#options = options;
    this.#position = position;
    this.#confirmed = confirmed;
    this.#heartbeat = setInterval(() => this.#beat(), options.heartbeatMs);
    socket.on('pong', payload => this.#pong(payload));
    socket.on('message', () => (this.#heard = performance.now()));
  }

  /** The feed has passed a record of so many bytes. */
  moved(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes >= this.#options.bytes) this.#ping();
    else this.#delay ??= setTimeout(() => this.#ping(), this.#options.delayMs);
  }

  stop(): void {
    clearInterval(this.#heartbeat);
    if (this.#delay) clearTimeout(this.#delay);
    this.#delay = null;
  }

  #ping(): void {
    if (this.#delay) clearTimeout(this.#delay);
    this.#delay = null;
    this.#bytes = 0;
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.ping(String(this.#position()));
  }

  #pong(payload: Buffer): void {
    this.#heard = performance.now();
    const text = payload.toString('latin1');
    const seq = /^\d{1,16}$/.test(text) ? Number(text) : NaN;
    // A pong for something that was never sent would lose messages; a late one changes nothing.
    if (!(seq > this.#last) || seq > this.#position()) return;
    this.#last = seq;
    this.#confirmed(seq);
  }

  #beat(): void {
    if (performance.now() - this.#heard > this.#options.silenceMs) this.#socket.terminate();
    else this.#ping();
  }
}
