/**
 * A connecting ZMQ socket, directly on `node:net`. It retries until it is closed; messages sent before the other end exists
 * are queued, without limit, and received messages are delivered in the turn in which they arrive.
 *
 * zeromq.js does the same through a thread of libzmq: two more thread switches per message and a promise per receive. Both
 * were measurable in the round trip of a cell (docs/decisions/0008).
 */
import { connect, type NetConnectOpts, type Socket } from 'node:net';
import {
  checkGreeting,
  checkReady,
  greeting,
  GREETING_BYTES,
  readyCommand,
  type SocketType
} from './handshake.js';
import { encodeCommand, encodeMessage, FrameDecoder, ZmtpError } from './frame-codec.js';

/** Kernels take some time to bind; frequent attempts cost almost nothing on a local socket. */
const RECONNECT_MS = 20;
/** A peer that breaks the protocol will do so again; the error is reported once, and retries are rare. */
const RECONNECT_AFTER_FAULT_MS = 1000;
/** More than the buffer of a local socket on Linux. Memory pages are allocated only when they are used. */
const READ_BYTES = 256 * 1024;

export interface ZmtpSocketOptions {
  readonly type: SocketType;
  /** `ipc://PATH` or `tcp://HOST:PORT`. */
  readonly endpoint: string;
  /** Routing id, for a ROUTER at the other end. */
  readonly identity?: string;
  /** The longest pause between reads while messages arrive one by one endlessly; 0 by default. */
  readonly coalesceMs?: number;
  /** Frames of one message, views into memory that is reused. An error thrown here is reported and has no other effect. */
  message(frames: Buffer[]): void;
  /** The handshake is done; called again after each reconnection. */
  connected?(): void;
  /** The connection has ended; everything received over it has been delivered. */
  disconnected?(): void;
  /** The peer is not as expected, or `message` threw. Not called while the peer is merely unreachable. */
  failed(error: unknown): void;
}

export class ZmtpSocket {
  readonly #target: NetConnectOpts;
  #socket: Socket | null = null;
  /** Allocated for the first bytes, not for each connection attempt. */
  #readBuffer: Buffer | null = null;
  #connection: ZmtpConnection | null = null;
  #waiting: (readonly Uint8Array[])[] = [];
  #retry: NodeJS.Timeout | null = null;
  #pause: NodeJS.Timeout | null = null;
  readonly #coalescer: ReadCoalescer;
  #isDraining = false;
  #received = 0;
  #closed = false;

  /** Throws `zmtp_endpoint_invalid`. */
  constructor(private readonly options: ZmtpSocketOptions) {
    this.#target = connectOptions(options.endpoint);
    this.#coalescer = new ReadCoalescer(options.coalesceMs ?? 0);
    this.#connect();
  }

  /** The handshake is done and the connection has not ended. */
  get isConnected(): boolean {
    return this.#connection?.isReady === true;
  }

  /** Number of messages so far. */
  get received(): number {
    return this.#received;
  }

  send(frames: readonly Uint8Array[]): void {
    if (this.#connection?.isReady === true) {
      this.#connection.send(frames);
    } else if (!this.#closed) {
      this.#waiting.push(frames);
    }
  }

  /** Call this from `message`, for a message that others may wait for: the next data is read immediately. */
  flushNow(): void {
    this.#coalescer.flushNow();
  }

  /** From now on all data is read immediately. */
  drain(): void {
    this.#isDraining = true;
    clearTimeout(this.#pause ?? undefined);
    this.#socket?.resume();
  }

  /** Unsent messages are dropped. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#waiting = [];
    clearTimeout(this.#retry ?? undefined);
    clearTimeout(this.#pause ?? undefined);
    const socket = this.#socket;
    if (socket !== null) {
      const ended = new Promise<void>(resolve => socket.once('close', () => resolve()));
      socket.destroy();
      await ended;
    }
  }

  #connect(): void {
    const socket = connect({
      ...this.#target,
      onread: {
        buffer: () => this.#connection?.target ?? (this.#readBuffer ??= Buffer.allocUnsafeSlow(READ_BYTES)),
        callback: (bytes, into) => {
          const before = this.#received;
          this.#connection?.received((into as Buffer).subarray(0, bytes));
          const pauseMs = this.#coalescer.after(this.#received - before, bytes, performance.now());
          if (pauseMs === 0 || this.#isDraining) return true;
          this.#pause = setTimeout(() => socket.resume(), pauseMs);
          return false;
        }
      }
    });
    this.#socket = socket;
    let fault: ZmtpError | null = null;
    socket.on('error', error => {
      if (error instanceof ZmtpError) fault = error;
    });
    socket.on('connect', () => {
      this.#connection = new ZmtpConnection(socket, this.options.type, this.options.identity ?? '', {
        ready: () => this.#ready(),
        message: frames => this.#message(frames)
      });
    });
    socket.on('close', () => this.#ended(fault));
  }

  #ready(): void {
    if (this.options.type === 'SUB') this.#connection?.send([SUBSCRIBE_TO_ALL]);
    for (const frames of this.#waiting.splice(0)) this.#connection?.send(frames);
    this.options.connected?.();
  }

  #message(frames: Buffer[]): void {
    this.#received++;
    try {
      this.options.message(frames);
    } catch (error) {
      this.options.failed(error); // One message that cannot be processed must not end the connection.
    }
  }

  #ended(fault: ZmtpError | null): void {
    const wasConnected = this.isConnected;
    clearTimeout(this.#pause ?? undefined);
    this.#socket = null;
    this.#connection = null;
    if (fault !== null) this.options.failed(fault);
    if (!this.#closed) {
      const wait = fault === null ? RECONNECT_MS : RECONNECT_AFTER_FAULT_MS;
      this.#retry = setTimeout(() => this.#connect(), wait);
    }
    if (wasConnected) this.options.disconnected?.();
  }
}

/** The first byte 1 means "subscribe", and the rest is the topic: the empty topic matches everything. */
const SUBSCRIBE_TO_ALL = Buffer.from([1]);

/** `ipc://PATH` or `tcp://HOST:PORT`. Throws `zmtp_endpoint_invalid`. */
function connectOptions(endpoint: string): NetConnectOpts {
  const ipc = /^ipc:\/\/(.+)$/.exec(endpoint)?.[1];
  if (ipc !== undefined) {
    // libzmq writes the abstract namespace of Linux with an @, Node with a NUL.
    return { path: ipc.startsWith('@') ? `\0${ipc.slice(1)}` : ipc };
  }
  const [, host, port] = /^tcp:\/\/\[?([^\]]+?)\]?:(\d{1,5})$/.exec(endpoint) ?? [];
  if (host === undefined || Number(port) < 1 || Number(port) > 65_535) {
    throw new ZmtpError(
      'zmtp_endpoint_invalid',
      `"${endpoint}" is not a valid ZMQ address; use ipc://PATH or tcp://HOST:PORT.`
    );
  }
  return { host, port: Number(port), noDelay: true };
}

/** One ZMTP connection on one stream: handshake, messages, and the commands of the protocol. It ends with its stream. */
interface ConnectionSink {
  /** The other end has sent its READY command; messages can be sent. */
  ready(): void;
  message(frames: Buffer[]): void;
}

/** A peer that accepts but never greets must not block the next attempt forever. Same as libzmq. */
const HANDSHAKE_MS = 30_000;
const PING_TTL_BYTES = 2;

class ZmtpConnection {
  readonly #decoder: FrameDecoder;
  #greeting: Buffer | null = Buffer.alloc(0);
  #isReady = false;

  /** Writes the greeting immediately. A violation of the protocol destroys `socket` with a `ZmtpError`. */
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

  /** Buffer to read the next bytes into; null: any. */
  get target(): Buffer | null {
    return this.#decoder.target;
  }

  /** The memory of `chunk` may be reused afterwards. */
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

  /** Only when ready. Sent in this turn of the event loop if the other end accepts it. */
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
    // Commands of later versions are ignored.
  }
}

/** This many single messages in a row are a flood. */
const FLOOD_MESSAGES = 16;
/** If fewer arrive during a pause, the pause was not worthwhile. */
const WORTHWHILE = 3;
/** A local socket of Linux is full at 48 KiB in pieces of 8 KiB, which is how libzmq writes. */
const FILLED_BYTES = 36 * 1024;
/** A read of this size may have left data behind: a peer that was waiting for a full socket is writing again. */
const MORE_BYTES = 24 * 1024;

/**
 * Decides when a socket should be read a moment later. A peer that sends one message after another wakes its reader for
 * each, and the wake-up is most of the cost of a small message, in this and every later process. Once many have arrived in
 * a row, reading pauses, and the gathered messages are read together. A lone message, or one of a few, never waits; and a
 * peer that sends much does not wait for us, because the pause ends before the socket's buffer is full.
 */
export class ReadCoalescer {
  #singleMessages = 0;
  #isPausing = false;
  #isIdle = false;
  #last = -Infinity;
  /** When the last pause began, and how many bytes have come since then. */
  #since = 0;
  #bytes = 0;

  constructor(private readonly longestMs: number) {}

  /** The received messages are not part of a flood: the next message must not wait. */
  flushNow(): void {
    this.#isIdle = true;
  }

  /** Called after each read with the number of completed messages: milliseconds to wait until the next read, 0 for none. */
  after(messages: number, bytes: number, now: number): number {
    const continues = this.#isPausing
      ? messages >= WORTHWHILE
      : messages > 0 && now - this.#last < this.longestMs;
    const isFlood = continues && !this.#isIdle;
    this.#isIdle = false;
    this.#isPausing = false;
    this.#last = now;
    if (!isFlood) {
      this.#singleMessages = 0;
      this.#since = now;
      this.#bytes = 0;
      return 0;
    }
    this.#singleMessages++;
    this.#bytes += bytes;
    if (this.#singleMessages < FLOOD_MESSAGES || bytes > MORE_BYTES) return 0;
    const untilFilledMs = (FILLED_BYTES * (now - this.#since)) / this.#bytes;
    const pauseMs = Math.min(Math.floor(untilFilledMs), this.longestMs);
    this.#isPausing = pauseMs > 0;
    this.#since = now;
    this.#bytes = 0;
    return pauseMs;
  }
}
