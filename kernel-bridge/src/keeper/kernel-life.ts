/**
 * One life of a kernel: a process, its sockets and its messages, from the start to the end of the process. A restart is a new
 * life. Verifies kernel messages on channels that can trigger actions, drops the replies to our own requests, and forwards the
 * rest.
 */
import {
  type ChannelName,
  headerOf,
  type KernelMessage,
  type MessageHeader,
  parentOf,
  PART,
  textOf
} from '../jupyter/kernel-message.js';
import { createSigner, type MessageSigner } from '../jupyter/zmq-signing.js';
import type { GapRecord } from '../journal/record.js';
import type { ConnectionInfo } from './connection-file.js';
import { KernelConnection, Readiness } from './kernel-connection.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import { DRAIN_MS, INTERRUPT_MS, PROOF_MS } from '../keeper-protocol/contract.js';
import type { KernelExit, KernelProcess } from './kernel-process.js';
import { statusOf } from './journal-entries.js';
import { IDLE_TIMEOUT_MS } from './journal-tail.js';
import type { OwnMessages, OwnRequest } from './own-messages.js';
import { type Incoming, Takeover, type TakeoverParts } from './takeover.js';
import type { KeeperLog } from './keeper-log.js';
import { aborted, deadline, pause } from '@tpulab/platform/waiting.js';

/** They begin and end executions; clients that run cells one after another wait for them. */
const BOUNDS: ReadonlySet<string> = new Set(['status', 'execute_input']);

interface LifeEvents {
  /** `header.session` of every message of the kernel, replies to our own requests included. */
  seenSession(session: string): void;
  /** A message for clients. `parent` was parsed only for statuses and replies, the rest is null. */
  message(message: KernelMessage, header: MessageHeader, parent: MessageHeader | null): void;
  /** Content of the reply to `kernel_info_request`. */
  kernelInfo(content: string): void;
  /** Messages are missing at this place. */
  gap(gap: GapRecord): void;
}

export class KernelLife {
  readonly #signer: MessageSigner;
  readonly #connection: KernelConnection;
  readonly #readiness: Readiness;
  readonly #replies = new Map<string, () => void>();
  /** Called when iopub brings the idle status of one of our own requests. */
  readonly #idles = new Map<string, () => void>();
  #readyAt: number | null = null;
  #acceptsRequests = true;
  /** While and after this keeper takes over a process that another one has started. */
  readonly #takeover: Takeover | null;
  readonly #stopped = new AbortController();
  #takingOver: Promise<void> | null = null;
  #settle!: () => void;
  /** Resolves when no earlier message is still to come; immediately for a process that this keeper started. */
  readonly settled: Promise<void>;
  #rejected = 0;
  #ended: Promise<void> | null = null;

  constructor(
    readonly process: KernelProcess,
    info: ConnectionInfo,
    private readonly own: OwnMessages,
    private readonly requests: RequestQueue,
    private readonly events: LifeEvents,
    private readonly log: KeeperLog,
    takeover: TakeoverParts | null = null
  ) {
    this.#signer = createSigner(info.signature_scheme, info.key);
    this.settled = new Promise(resolve => {
      this.#settle = resolve;
    });
    this.#connection = new KernelConnection(info, {
      message: (channel, frames) => this.#received(channel, frames),
      failure: error => log.error({ err: error }, 'a kernel socket failed')
    });
    this.#readiness = new Readiness(() => {
      // Two requests: the kernel refuses a second message with the same signature. A running kernel may be busy on shell.
      if (takeover?.tail.state.ready !== true) {
        this.#transmit('shell', own.shownRequest('kernel_info_request').parts);
      }
      this.#transmit('control', own.request('kernel_info_request').parts);
    });
    this.#takeover =
      takeover &&
      new Takeover(takeover, {
        parse: (channel, frames) => this.#parse(channel, frames),
        deliver: ({ message, header, parent }) => events.message(message, header, parent),
        gap: gap => events.gap(gap)
      });
    if (takeover === null || this.#takeover === null) {
      void this.#readiness.ready.then(() => this.#begin());
      this.#settle();
    } else {
      this.#takingOver = this.#takeOver(this.#takeover, takeover).catch((error: unknown) =>
        log.error({ err: error }, 'the kernel was not taken over whole')
      );
    }
    // It is unknown which thread of another launcher's kernel answers, and so when; nothing waits for it.
    if (takeover === null || takeover.link !== null || !takeover.tail.state.ready) {
      this.#readiness.start();
      void this.#connection.stdinConnected.then(() => this.#readiness.connected());
    }
  }

  /** Resolves when requests can be sent; never, when the process ends before. */
  get ready(): Promise<void> {
    return this.#readiness.ready;
  }

  get isReady(): boolean {
    return this.#readyAt !== null;
  }

  /** Messages of the process from the time without a keeper are incomplete. */
  get hasGap(): boolean {
    return this.#takeover?.hasGap === true;
  }

  /**
   * Resolves when the kernel has answered all earlier shell requests, which may take as long as a cell; false when this life ends
   * before. Uses an execute request with empty, silent code: some kernels answer `kernel_info_request` while they execute.
   */
  async caughtUp(): Promise<boolean> {
    const nothing = this.own.request('execute_request', {
      code: '',
      silent: true,
      store_history: false,
      user_expressions: {},
      allow_stdin: false,
      stop_on_error: false
    });
    return (await this.#request('shell', nothing, aborted(this.#stopped.signal))) === 'replied';
  }

  /**
   * True when iopub has brought the idle status of a request sent now; false when it was dropped, or when the process ends first.
   */
  async hasPassedIopub(): Promise<boolean> {
    const question = this.own.request('kernel_info_request');
    const stopped = aborted(this.#stopped.signal);
    let isPassed = false;
    const passed = new Promise<void>(resolve => {
      this.#idles.set(question.msgId, () => {
        isPassed = true;
        resolve();
      });
    });
    const replied = await this.#request('shell', question, stopped);
    if (replied === 'replied')
      await Promise.race([passed, stopped, pause(IDLE_TIMEOUT_MS, this.#stopped.signal)]);
    this.#idles.delete(question.msgId);
    return isPassed;
  }

  /** Milliseconds since it was ready, 0 before. */
  get readyForMs(): number {
    return this.#readyAt === null ? 0 : performance.now() - this.#readyAt;
  }

  /** Requests that wait for a starting kernel are not handled here: nothing runs before the kernel is ready. */
  async interrupt(mode: 'signal' | 'message'): Promise<void> {
    if (this.#readyAt === null) return;
    if (mode === 'signal') {
      this.process.signal('SIGINT');
      return;
    }
    using within = deadline(INTERRUPT_MS);
    const request = this.own.request('interrupt_request');
    const late = aborted(within.signal).then(() => 'late' as const);
    const first = await this.#request<KernelExit | 'late'>('control', request, this.process.exited, late);
    if (first !== 'late') return;
    throw new KeeperError(
      'kernel_interrupt_failed',
      `The kernel did not answer interrupt_request within ${INTERRUPT_MS} ms; restart it.`
    );
  }

  /** Later requests of clients wait for the next process. */
  closeRequests(): void {
    this.#acceptsRequests = false;
    this.requests.close();
  }

  requestShutdown(restart: boolean): void {
    this.#transmit('control', this.own.shownRequest('shutdown_request', { restart }).parts);
  }

  /** After the process has ended: receives its last messages, then closes the sockets. */
  end(): Promise<void> {
    this.#ended ??= this.#end();
    return this.#ended;
  }

  async #end(): Promise<void> {
    this.closeRequests();
    this.#readiness.stop();
    await this.#connection.drained(DRAIN_MS);
    this.#stopped.abort();
    await this.#takingOver;
    await this.#connection.close();
  }

  /**
   * A process that accepted requests before keeps accepting them, proven or not: without a ring, as soon as it is
   * connected.
   */
  async #takeOver(takeover: Takeover, { link, tail }: TakeoverParts): Promise<void> {
    const { signal } = this.#stopped;
    const stopped = aborted(signal);
    let proven = this.ready;
    if (tail.state.ready) {
      this.#readyAt = performance.now();
      const late = pause(PROOF_MS, signal);
      proven = Promise.race([link === null ? this.#connected() : proven, late]);
    }
    const again = await takeover.run(Promise.race([proven, stopped]));
    this.#readiness.stop();
    if (signal.aborted) {
      link?.close();
    } else {
      this.requests.addFirst(again);
      this.#begin();
      await takeover.resendReplies(signal);
      this.#settle();
    }
  }

  /** Without the subscription, output of the first request would be lost; without stdin, its questions. */
  async #connected(): Promise<void> {
    await Promise.all([this.#connection.stdinConnected, this.#connection.iopubConnected]);
  }

  #begin(): void {
    this.#readyAt ??= performance.now();
    if (this.#acceptsRequests) this.requests.open(({ channel, parts }) => this.#transmit(channel, parts));
  }

  /** Resolves when the kernel has replied, or with the first promise of `others` that settles. */
  async #request<T>(
    channel: ChannelName,
    { msgId, parts }: OwnRequest,
    ...others: Promise<T>[]
  ): Promise<T | 'replied'> {
    const replied = new Promise<'replied'>(resolve => this.#replies.set(msgId, () => resolve('replied')));
    this.#transmit(channel, parts);
    try {
      return await Promise.race([replied, ...others]);
    } finally {
      this.#replies.delete(msgId);
    }
  }

  #transmit(channel: ChannelName, parts: readonly Buffer[]): void {
    this.#connection.send(channel, this.#signer.sign(parts));
  }

  #received(channel: ChannelName, frames: Buffer[]): void {
    const incoming = this.#parse(channel, frames);
    if (channel === 'iopub' && (incoming === null || BOUNDS.has(incoming.header.msg_type))) {
      this.#connection.flushNow();
    }
    if (incoming === null) return;
    if (this.#takeover === null) this.events.message(incoming.message, incoming.header, incoming.parent);
    else this.#takeover.take(incoming);
  }

  /** Null for messages that are not for clients. */
  #parse(channel: ChannelName, frames: Buffer[]): Incoming | null {
    let message: KernelMessage;
    let header: MessageHeader;
    let parent: MessageHeader | null = null;
    try {
      // Most messages arrive on iopub, and only the owner of the run folder, who can also read the key, could write to its
      // socket.
      message =
        channel === 'iopub' ? this.#signer.accept(channel, frames) : this.#signer.verify(channel, frames);
      header = headerOf(message);
      if (header.msg_type === 'status' || header.msg_type.endsWith('_reply')) parent = parentOf(message);
    } catch (error) {
      this.#reject(channel, error);
      return null;
    }
    this.events.seenSession(header.session);
    if (channel === 'iopub') this.#readiness.receivedIopub();
    if (this.own.isOwn(parent)) {
      this.#answered(header, parent, message);
      return channel === 'iopub' && this.own.isShown(parent) ? { message, header, parent } : null;
    }
    return header.msg_type === 'iopub_welcome' ? null : { message, header, parent };
  }

  #answered(header: MessageHeader, parent: MessageHeader | null, message: KernelMessage): void {
    if (header.msg_type === 'kernel_info_reply') {
      this.events.kernelInfo(textOf(message, PART.content));
      // At its start a kernel answers on control before it reads shell; a subshell that is requested in that moment
      // blocks ipykernel's control thread forever (seen with 7.4.0). A kernel that was taken over may be busy on shell.
      if (message.channel === 'shell' || this.#takeover !== null) this.#readiness.answered();
    }
    if (parent === null) return;
    if (header.msg_type.endsWith('_reply')) this.#replies.get(parent.msg_id)?.();
    else if (statusOf(header.msg_type, message) === 'idle') this.#idles.get(parent.msg_id)?.();
  }

  /** A forged or broken message is dropped and counted; a flood of them must not fill the log. */
  #reject(channel: ChannelName, error: unknown): void {
    this.#rejected++;
    if (Number.isInteger(Math.log10(this.#rejected))) {
      this.log.warn({ channel, rejected: this.#rejected, err: error }, 'a message was rejected');
    }
  }
}

/**
 * Requests of clients for the kernel. They are in the journal, and wait here until a process can accept them without
 * losing any output: the process that is starting, or the next one if there is none.
 */
export class RequestQueue {
  #waiting: KernelMessage[] = [];
  #send: ((message: KernelMessage) => void) | null = null;

  add(message: KernelMessage): void {
    if (this.#send === null) this.#waiting.push(message);
    else this.#send(message);
  }

  /** Message ids of the waiting requests. */
  get ids(): ReadonlySet<string> {
    return new Set(this.#waiting.map(message => headerOf(message).msg_id));
  }

  /** Removes the waiting executions; returns their message ids. */
  removeExecutions(): readonly string[] {
    const isExecution = (message: KernelMessage): boolean => headerOf(message).msg_type === 'execute_request';
    const executions = this.#waiting.filter(isExecution);
    this.#waiting = this.#waiting.filter(message => !isExecution(message));
    return executions.map(message => headerOf(message).msg_id);
  }

  /** Inserts messages before all waiting requests: the kernel may already have them. */
  addFirst(messages: readonly KernelMessage[]): void {
    this.#waiting.unshift(...messages);
  }

  /** The process accepts requests: sends the waiting ones in order, and from now on each immediately. */
  open(send: (message: KernelMessage) => void): void {
    this.#send = send;
    for (const message of this.#waiting.splice(0)) send(message);
  }

  /** The process has ended; new requests are for the next. */
  close(): void {
    this.#send = null;
  }

  /** Drops all waiting requests. */
  clear(): void {
    this.#waiting = [];
  }
}
