/**
 * The ZMQ sockets of one kernel process. Shell and stdin share an identity, because a kernel sends its `input_request` to the
 * identity of the shell request. There is no high-water mark: messages that cannot be sent yet wait in memory and are not
 * dropped.
 */
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import type { ChannelName } from '../jupyter/kernel-message.js';
import { ZmtpSocket } from '../jupyter/zmtp/zmtp-socket.js';
import { type ConnectionInfo, endpoint, routingIdOf } from './connection-file.js';

/**
 * How long outputs of a flood may gather in the socket: a wake-up and a write per output cost more than all later steps. A
 * screen is not refreshed more often.
 */
const COALESCE_MS = 16;

interface ConnectionEvents {
  /** The frames are views into memory that is reused: store copies, not views. */
  message(channel: ChannelName, frames: Buffer[]): void;
  failure(error: unknown): void;
}

export class KernelConnection implements AsyncDisposable {
  readonly #sockets: Readonly<Record<ChannelName, ZmtpSocket>>;
  /** The kernel knows our stdin socket. A ROUTER drops messages to a peer that it does not know yet. */
  readonly stdinConnected: Promise<void>;
  /** The subscription has been sent: later shell requests arrive after it. */
  readonly iopubConnected: Promise<void>;
  /** Called when a connection ends, while `drained` waits for it. */
  #disconnected: () => void = () => undefined;
  #closed: Promise<void> | null = null;

  constructor(info: ConnectionInfo, events: ConnectionEvents) {
    const identity = routingIdOf(info);
    const open = (channel: ChannelName, port: number, connected?: () => void): ZmtpSocket =>
      new ZmtpSocket({
        type: channel === 'iopub' ? 'SUB' : 'DEALER',
        endpoint: endpoint(info, port),
        identity: channel === 'iopub' ? '' : identity,
        coalesceMs: channel === 'iopub' ? COALESCE_MS : 0,
        message: frames => events.message(channel, frames),
        ...(connected && { connected }),
        disconnected: () => this.#disconnected(),
        failed: error => events.failure(error)
      });
    let stdinConnected!: () => void;
    this.stdinConnected = new Promise(resolve => {
      stdinConnected = resolve;
    });
    let iopubConnected!: () => void;
    this.iopubConnected = new Promise(resolve => {
      iopubConnected = resolve;
    });
    this.#sockets = {
      iopub: open('iopub', info.iopub_port, () => iopubConnected()),
      shell: open('shell', info.shell_port),
      stdin: open('stdin', info.stdin_port, () => stdinConnected()),
      control: open('control', info.control_port)
    };
  }

  /** Call this when the current iopub message is not part of a flood. */
  flushNow(): void {
    this.#sockets.iopub.flushNow();
  }

  send(channel: ChannelName, frames: Buffer[]): void {
    if (channel !== 'iopub') this.#sockets[channel].send(frames);
  }

  /**
   * After the process has ended: resolves when all its messages have been received. The end of a connection comes
   * after its last message; a child that still has the socket open delays that, hence the limit.
   */
  async drained(limitMs: number): Promise<void> {
    const sockets = Object.values(this.#sockets);
    sockets.forEach(socket => socket.drain());
    const cancel = new AbortController();
    const late = delay(limitMs, undefined, { signal: cancel.signal }).catch(() => undefined);
    const ended = new Promise<void>(resolve => {
      this.#disconnected = () => {
        if (!sockets.some(socket => socket.isConnected)) resolve();
      };
      this.#disconnected();
    });
    await Promise.race([ended, late]);
    cancel.abort();
    // Messages that have arrived are delivered in the next turn; as long as a turn delivers some, there may be more.
    let before;
    let now = -1;
    do {
      before = now;
      await turn();
      now = sockets.reduce((sum, socket) => sum + socket.received, 0);
    } while (now !== before);
  }

  close(): Promise<void> {
    this.#closed ??= Promise.all(Object.values(this.#sockets).map(socket => socket.close())).then(
      () => undefined
    );
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** The sockets queue a request until the kernel has bound its own, so an unanswered one is seldom worth repeating. */
const UNANSWERED_MS = 2_000;
/** Answered, but iopub is silent: the subscription did not exist yet when the kernel sent busy and idle. */
const SILENT_IOPUB_MS = 50;

/**
 * Sends `kernel_info` until the kernel has answered once and iopub has delivered once. From then on no output of a
 * client's request lost: a subscription that is still pending misses messages. The first request waits for the stdin
 * socket, so that a reply also means that an `input_request` will arrive.
 */
export class Readiness {
  readonly ready: Promise<void>;
  #becomeReady!: () => void;
  #answered = false;
  #hasIopub = false;
  #stopped = false;
  #timer: NodeJS.Timeout | null = null;

  /** `nudge` sends a `kernel_info_request` on shell and on control. */
  constructor(private readonly nudge: () => void) {
    this.ready = new Promise(resolve => {
      this.#becomeReady = resolve;
    });
  }

  get isReady(): boolean {
    return this.#answered && this.#hasIopub;
  }

  start(): void {
    this.#again();
  }

  /** The stdin socket is connected. A kernel without one gets the request anyway, a little later. */
  connected(): void {
    if (!this.#stopped && !this.isReady) {
      clearTimeout(this.#timer ?? undefined);
      this.nudge();
      this.#again();
    }
  }

  /** A `kernel_info_reply` to a nudge has come. */
  answered(): void {
    if (!this.#answered) {
      this.#answered = true;
      this.#check();
    }
  }

  /** A message has arrived on iopub. */
  receivedIopub(): void {
    if (!this.#hasIopub) {
      this.#hasIopub = true;
      this.#check();
    }
  }

  /** `ready` then never resolves. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer ?? undefined);
  }

  #check(): void {
    if (this.#stopped) return;
    clearTimeout(this.#timer ?? undefined);
    if (this.isReady) this.#becomeReady();
    else this.#again();
  }

  #again(): void {
    this.#timer = setTimeout(
      () => {
        this.nudge();
        this.#again();
      },
      this.#answered ? SILENT_IOPUB_MS : UNANSWERED_MS
    );
  }
}
