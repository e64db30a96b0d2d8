/** One ZMTP connection on one stream: handshake, messages, and the commands of the protocol. It ends with its stream. */
import type { Socket } from 'node:net';
import { encodeCommand, encodeMessage, FrameDecoder } from './frame-codec.js';
import {
  checkGreeting,
  checkReady,
  greeting,
  GREETING_BYTES,
  readyCommand,
  type SocketType
} from './handshake.js';

export interface ConnectionSink {
  /** The other end has said what it is; messages can be sent. */
  ready(): void;
  message(frames: Buffer[]): void;
}

/** A peer that accepts but never greets must not hold up the next try for ever. As libzmq. */
const HANDSHAKE_MS = 30_000;
const PING_TTL_BYTES = 2;

export class ZmtpConnection {
  readonly #decoder: FrameDecoder;
  #greeting: Buffer | null = Buffer.alloc(0);
  #isReady = false;

  /** Writes the greeting at once. A violation of the protocol destroys `socket` with a `ZmtpError`. */
  constructor(
    private readonly socket: Socket,
    private readonly type: SocketType,
    private readonly identity: string,
    private readonly sink: ConnectionSink
  ) {
    this.#decoder = new FrameDecoder({
      message: frames => this.sink.message(frames),
      command: (name, data) => this.#command(name, data)
    });
    socket.setTimeout(HANDSHAKE_MS, () => socket.destroy());
    socket.write(greeting());
  }

  /** Where the next bytes are best read to; null: anywhere. */
  get target(): Buffer | null {
    return this.#decoder.target;
  }

  /** The memory of `chunk` may be used again afterwards. */
  received(chunk: Buffer): void {
    try {
      this.#received(chunk);
    } catch (error) {
      this.socket.destroy(error as Error);
    }
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  /** Only when ready. Leaves in this turn of the event loop if the other end takes it. */
  send(frames: readonly Uint8Array[]): void {
    const pieces = encodeMessage(frames);
    this.socket.cork();
    for (const piece of pieces) this.socket.write(piece);
    this.socket.uncork();
  }

  #received(chunk: Buffer): void {
    if (this.#greeting === null) {
      this.#decoder.push(chunk);
      return;
    }
    const bytes = Buffer.concat([this.#greeting, chunk]);
    this.#greeting = bytes;
    if (bytes.length < GREETING_BYTES) return;
    checkGreeting(bytes);
    this.#greeting = null;
    this.socket.write(readyCommand(this.type, this.identity));
    if (bytes.length > GREETING_BYTES) this.#decoder.push(bytes.subarray(GREETING_BYTES));
  }

  #command(name: string, data: Buffer): void {
    if (name === 'READY' && !this.#isReady) {
      checkReady(data, this.type);
      this.#isReady = true;
      this.socket.setTimeout(0);
      this.sink.ready();
    } else if (name === 'PING') {
      this.socket.write(encodeCommand('PONG', data.subarray(PING_TTL_BYTES)));
    }
    // Commands of later versions are none of our business.
  }
}
