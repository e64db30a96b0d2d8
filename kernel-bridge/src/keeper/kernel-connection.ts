/**
 * The ZMQ sockets of one kernel process. Shell and stdin share an identity, because a kernel sends its `input_request` to
 * the identity that asked on shell. No mark limits anything: what cannot be taken at once waits in memory, not in the void.
 */
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import { Dealer, Subscriber } from 'zeromq';
import type { ChannelName } from '../wire/kernel-message.js';
import { type ConnectionInfo, endpoint, routingIdOf } from './connection-file.js';
import { Heartbeat } from './heartbeat.js';
import { DealerSocket, ReceivingSocket } from './zmq-channel.js';

/** Kernels take their time to bind; asking often costs nothing on a local socket. */
const RECONNECT_MS = 20;

const UNBOUNDED = { receiveHighWaterMark: 0, linger: 0, reconnectInterval: RECONNECT_MS } as const;

export interface ConnectionEvents {
  message(channel: ChannelName, frames: Buffer[]): void;
  /** The kernel's heartbeat stopped, or beats again. */
  heartbeat(alive: boolean): void;
  failure(error: unknown): void;
}

export class KernelConnection implements AsyncDisposable {
  readonly #shell: DealerSocket;
  readonly #stdin: DealerSocket;
  readonly #control: DealerSocket;
  readonly #iopub: ReceivingSocket<Subscriber>;
  readonly #heartbeat: Heartbeat;
  /** The kernel knows our stdin socket. A ROUTER drops what it sends to a peer that it does not know yet. */
  readonly stdinConnected: Promise<void>;
  readonly #iopubLost: Promise<void>;
  #iopubConnected = false;
  #closed: Promise<void> | null = null;

  constructor(
    info: ConnectionInfo,
    private readonly events: ConnectionEvents
  ) {
    const identity = routingIdOf(info);
    const dealer = (
      channel: ChannelName,
      port: number,
      onHandshake: () => void = () => undefined
    ): DealerSocket => {
      const socket = new Dealer({ ...UNBOUNDED, sendHighWaterMark: 0, routingId: identity });
      socket.events.on('handshake', onHandshake);
      socket.connect(endpoint(info, port));
      return new DealerSocket(socket, frames => events.message(channel, frames), this.#failed);
    };
    this.#shell = dealer('shell', info.shell_port);
    let connected!: () => void;
    this.stdinConnected = new Promise(resolve => {
      connected = resolve;
    });
    this.#stdin = dealer('stdin', info.stdin_port, () => connected());
    this.#control = dealer('control', info.control_port);
    const subscriber = new Subscriber(UNBOUNDED);
    subscriber.events.on('connect', () => (this.#iopubConnected = true));
    this.#iopubLost = new Promise(resolve => subscriber.events.on('disconnect', () => resolve()));
    subscriber.connect(endpoint(info, info.iopub_port));
    subscriber.subscribe();
    this.#iopub = new ReceivingSocket(subscriber, frames => events.message('iopub', frames), this.#failed);
    this.#heartbeat = new Heartbeat(endpoint(info, info.hb_port), alive => events.heartbeat(alive));
  }

  send(channel: ChannelName, frames: Buffer[]): void {
    const socket = { shell: this.#shell, stdin: this.#stdin, control: this.#control, iopub: null }[channel];
    socket?.send(frames, this.#failed);
  }

  /**
   * After the process has ended: resolves when everything that it sent has been received. libzmq reports the end of the
   * connection after the last message; a child that still holds the socket open delays that, hence the limit.
   */
  async drained(limitMs: number): Promise<void> {
    if (this.#iopubConnected) {
      const cancel = new AbortController();
      const late = delay(limitMs, undefined, { signal: cancel.signal }).catch(() => undefined);
      await Promise.race([this.#iopubLost, late]);
      cancel.abort();
    }
    const sockets = [this.#shell, this.#stdin, this.#control, this.#iopub];
    let before;
    let now = -1;
    do {
      before = now;
      await turn();
      now = sockets.reduce((sum, socket) => sum + socket.received, 0);
    } while (now !== before || sockets.some(socket => socket.readable));
  }

  close(): Promise<void> {
    this.#closed ??= Promise.all(
      [this.#shell, this.#stdin, this.#control, this.#iopub, this.#heartbeat].map(part => part.close())
    ).then(() => undefined);
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  readonly #failed = (error: unknown): void => this.events.failure(error);
}
