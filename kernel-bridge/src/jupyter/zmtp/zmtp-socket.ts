/**
 * A connecting ZMQ socket, straight on `node:net`. It keeps trying until it is closed; what is sent before the other end
 * is there waits, without limit, and what the other end sends is handed over in the turn in which it arrives.
 *
 * zeromq.js gives the same with a thread of libzmq in between: two more changes of thread for each message and a promise
 * for each receive. Both were measurable in the round trip of a cell (docs/decisions/0008).
 */
import { connect, type NetConnectOpts, type Socket } from 'node:net';
import { ZmtpConnection } from './connection.js';
import type { SocketType } from './handshake.js';
import { ReadCoalescer } from './read-coalescer.js';
import { ZmtpError } from './zmtp-error.js';

/** Kernels take their time to bind; asking often costs nothing on a local socket. */
const RECONNECT_MS = 20;
/** A peer that breaks the protocol will do so again; it is said once, and tried seldom. */
const RECONNECT_AFTER_FAULT_MS = 1000;
/** More than a local socket of Linux holds at once. Memory is taken page by page as it is used. */
const READ_BYTES = 256 * 1024;

export interface ZmtpSocketOptions {
  readonly type: SocketType;
  /** `ipc://PATH` or `tcp://HOST:PORT`. */
  readonly endpoint: string;
  /** Routing id, for a ROUTER at the other end. */
  readonly identity?: string;
  /** The longest pause between reads while messages come one by one without end; by default there is none. */
  readonly coalesceMs?: number;
  /** Frames of one message, views into memory that is used again. An error thrown here is reported and changes nothing else. */
  message(frames: Buffer[]): void;
  /** The handshake is done. Again after each reconnection. */
  connected?(): void;
  /** The connection has ended; everything that came over it has been handed over. */
  disconnected?(): void;
  /** The peer is not what was expected, or `message` threw. Nothing for a peer that is merely not there. */
  failed(error: unknown): void;
}

export class ZmtpSocket {
  readonly #options: ZmtpSocketOptions;
  readonly #target: NetConnectOpts;
  #socket: Socket | null = null;
  /** Made for the first bytes, not for each of the tries until the other end is there. */
  #anywhere: Buffer | null = null;
  #connection: ZmtpConnection | null = null;
  #waiting: (readonly Uint8Array[])[] = [];
  #retry: NodeJS.Timeout | null = null;
  #pause: NodeJS.Timeout | null = null;
  readonly #coalescer: ReadCoalescer;
  #isDraining = false;
  #received = 0;
  #closed = false;

  /** Throws `zmtp_endpoint_invalid`. */
  constructor(options: ZmtpSocketOptions) {
    this.#options = options;
    this.#target = connectOptions(options.endpoint);
    this.#coalescer = new ReadCoalescer(options.coalesceMs ?? 0);
    this.#connect();
  }

  /** The handshake is done and the connection has not ended. */
  get isConnected(): boolean {
    return this.#connection?.isReady === true;
  }

  /** Messages so far. */
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

  /** To be called from `message`, for one that others may be waiting for: what follows is read at once. */
  flushNow(): void {
    this.#coalescer.flushNow();
  }

  /** From now on everything is read at once. */
  drain(): void {
    this.#isDraining = true;
    clearTimeout(this.#pause ?? undefined);
    this.#socket?.resume();
  }

  /** What could not be sent yet is dropped. */
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
        buffer: () => this.#connection?.target ?? (this.#anywhere ??= Buffer.allocUnsafeSlow(READ_BYTES)),
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
      this.#connection = new ZmtpConnection(socket, this.#options.type, this.#options.identity ?? '', {
        ready: () => this.#ready(),
        message: frames => this.#message(frames)
      });
    });
    socket.on('close', () => this.#ended(fault));
  }

  #ready(): void {
    if (this.#options.type === 'SUB') this.#connection?.send([SUBSCRIBE_TO_ALL]);
    for (const frames of this.#waiting.splice(0)) this.#connection?.send(frames);
    this.#options.connected?.();
  }

  #message(frames: Buffer[]): void {
    this.#received++;
    try {
      this.#options.message(frames);
    } catch (error) {
      this.#options.failed(error); // one message that cannot be dealt with must not end the connection
    }
  }

  #ended(fault: ZmtpError | null): void {
    const wasConnected = this.isConnected;
    clearTimeout(this.#pause ?? undefined);
    this.#socket = null;
    this.#connection = null;
    if (fault !== null) this.#options.failed(fault);
    if (!this.#closed) {
      const wait = fault === null ? RECONNECT_MS : RECONNECT_AFTER_FAULT_MS;
      this.#retry = setTimeout(() => this.#connect(), wait);
    }
    if (wasConnected) this.#options.disconnected?.();
  }
}

/** A message whose first byte is 1 subscribes, the rest is the topic: none. */
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
