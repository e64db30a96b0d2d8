/**
 * A client that reconnects automatically, of one of two kinds. `stock` behaves like JupyterLab: it names its session, shows
 * all output, and gives up where JupyterLab gives up. `ours` uses the numbered subprotocol: it acknowledges received
 * records and names its last record (`resume=`) when it returns. Neither drops anything: repeated output is counted twice.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { NUMBERED_HEADER_BYTES, NUMBERED_SUBPROTOCOL } from '@tpulab/protocol';
import { type RawData, WebSocket } from 'ws';
import { TOKEN } from '../../testing/temporary-gateway.js';
import { decodeV1, encodeV1, type ChannelName } from '../../jupyter/index.js';
import { numbersIn } from './numbered-output.js';

export type ClientKind = 'stock' | 'ours';

const V1 = 'v1.kernel.websocket.jupyter.org';
const RETRY_MS = 50;
const POLL_MS = 25;
/** JupyterLab treats these as final: the kernel was shut down, or the server ended the connection. */
const FINAL_CODES: readonly number[] = [1000, 1001];

export interface ClientOptions {
  readonly kind: ClientKind;
  readonly kernelId: string;
  /** Called for every connection. */
  readonly url: () => string;
}

interface Content {
  readonly text?: string;
  readonly name?: string;
  readonly data?: Record<string, string>;
  readonly execution_state?: string;
  readonly prompt?: string;
  readonly status?: string;
}

export class NumberedClient implements Disposable {
  readonly kind: ClientKind;
  readonly session = randomUUID();
  /** Numbers in the order in which they were shown. */
  readonly shown: number[] = [];
  greatest = -1;
  /** msg_ids of requests in the order in which their replies came. */
  readonly replies: string[] = [];
  readonly replyStatus = new Map<string, string>();
  readonly idle = new Set<string>();
  /** msg_ids of control messages that the kernel has answered while its cell runs. */
  readonly #controlled = new Set<string>();
  readonly questions: string[] = [];
  readonly states: string[] = [];
  /** Gaps that the bridge has reported. */
  readonly gaps: string[] = [];
  connections = 0;
  /** Why it will not reconnect; null as long as it would. */
  fatalReason: string | null = null;
  /** Failure of the last connection, shown by a failing test. */
  failure = '';
  readonly #options: ClientOptions;
  readonly #requests: string[] = [];
  #unsent: Buffer[] = [];
  /** By channel, the last kernel message that a client of ours has received. */
  readonly #lastIds = new Map<string, string>();
  /** The last record that a client of ours has received. */
  #taken: number | null = null;
  #acknowledging = false;
  #socket: WebSocket | null = null;
  #ended = false;
  #paused = false;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.kind = options.kind;
  }

  async connect(): Promise<this> {
    this.#open();
    await this.until(() => this.isOpen || this.fatalReason !== null, 'to be connected');
    return this;
  }

  get isOpen(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  execute(code: string, options: { allow_stdin?: boolean } = {}): string {
    const id = this.send('shell', 'execute_request', {
      code,
      silent: false,
      store_history: true,
      user_expressions: {},
      allow_stdin: false,
      stop_on_error: false,
      ...options
    });
    this.#requests.push(id);
    return id;
  }

  /**
   * Resolves when the kernel has received everything that was sent before. A client cannot know this for a request while a
   * cell runs; but a request on the control channel travels behind, and is answered immediately.
   */
  async delivered(): Promise<void> {
    const id = this.send('control', 'kernel_info_request', {});
    await this.until(() => this.#controlled.has(id), 'for an answer on the control channel');
  }

  answer(value: string): void {
    this.send('stdin', 'input_reply', { value });
  }

  send(channel: ChannelName, msgType: string, content: object): string {
    const id = randomUUID();
    const header = { msg_id: id, msg_type: msgType, session: this.session, username: '', version: '5.4' };
    const frame = encodeV1({
      channel,
      parts: [header, {}, {}, content].map(part => Buffer.from(JSON.stringify(part)))
    });
    if (this.isOpen) this.#socket?.send(frame);
    else this.#unsent.push(frame);
    return id;
  }

  /** Counts requests whose reply has not arrived, or arrived more than once, and replies that overtook another. */
  replyMarks(): { lost: number; doubled: number; reordered: number } {
    const places = this.replies.map(id => this.#requests.indexOf(id)).filter(place => place >= 0);
    const first = [...new Set(places)];
    return {
      lost: this.#requests.length - first.length,
      doubled: places.length - first.length,
      reordered: first.filter((place, index) => index > 0 && place < Math.max(...first.slice(0, index)))
        .length
    };
  }

  /** Whether the reply and the idle status of every request have arrived. */
  get isAnswered(): boolean {
    return this.#requests.every(id => this.replyStatus.has(id) && this.idle.has(id));
  }

  /** Cuts the connection as a lost network would. */
  abort(): void {
    this.#socket?.terminate();
  }

  /** Stops reading, so that the gateway's buffers fill. */
  pause(): void {
    this.#paused = true;
    this.#socket?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#socket?.resume();
  }

  /** Disconnects and stays disconnected until `connect`. */
  async leave(): Promise<void> {
    const socket = this.#socket;
    this.#socket = null;
    if (!socket || socket.readyState === WebSocket.CLOSED) return;
    // Not `once` of node:events: a socket that is still connecting emits an error before it closes.
    const closed = new Promise<void>(resolve => socket.once('close', () => resolve()));
    socket.terminate();
    await closed;
  }

  async until(condition: () => boolean, what: string, deadlineMs = 120_000): Promise<void> {
    if (!(await this.within(condition, deadlineMs)))
      throw new Error(
        `The ${this.kind} client waited in vain ${what}; its last connection: ${this.failure || 'no failure'}.`
      );
  }

  async within(condition: () => boolean, deadlineMs: number): Promise<boolean> {
    const deadline = performance.now() + deadlineMs;
    while (!condition()) {
      if (performance.now() > deadline) return false;
      await delay(POLL_MS);
    }
    return true;
  }

  [Symbol.dispose](): void {
    this.#ended = true;
    this.#socket?.terminate();
  }

  #open(): void {
    const target = new URL(
      `api/kernels/${this.#options.kernelId}/channels`,
      this.#options.url().replace(/^http/, 'ws')
    );
    target.searchParams.set('session_id', this.session);
    if (this.kind === 'ours' && this.#taken !== null) target.searchParams.set('resume', String(this.#taken));
    if (this.kind === 'ours')
      for (const [channel, id] of this.#lastIds) target.searchParams.append('last', `${channel}:${id}`);
    const socket = new WebSocket(target, this.kind === 'ours' ? [NUMBERED_SUBPROTOCOL, V1] : [V1], {
      headers: { authorization: `token ${TOKEN}` }
    });
    this.#socket = socket;
    socket.on('open', () => {
      this.connections++;
      if (this.#paused) socket.pause();
      for (const frame of this.#unsent.splice(0)) socket.send(frame);
    });
    socket.on('message', (data, isBinary) => this.#received(socket, data, isBinary));
    socket.on('error', error => (this.failure = error.message));
    socket.on('close', code => void this.#closed(socket, code));
  }

  async #closed(socket: WebSocket, code: number): Promise<void> {
    if (!this.#isCurrent(socket)) return;
    if (FINAL_CODES.includes(code)) {
      this.fatalReason = `closed with ${code}`;
      return;
    }
    await delay(RETRY_MS);
    if (!this.#isCurrent(socket)) return;
    const status = await this.#kernelStatus();
    if (!this.#isCurrent(socket)) return;
    if (status === 404) this.fatalReason = 'the server does not know the kernel';
    else this.#open();
  }

  #isCurrent(socket: WebSocket): boolean {
    return !this.#ended && socket === this.#socket;
  }

  /** The status that JupyterLab checks before it retries; null when there is no answer. */
  async #kernelStatus(): Promise<number | null> {
    try {
      const response = await fetch(new URL(`api/kernels/${this.#options.kernelId}`, this.#options.url()), {
        headers: { authorization: `token ${TOKEN}` },
        signal: AbortSignal.timeout(5_000)
      });
      await response.arrayBuffer();
      return response.status;
    } catch {
      return null;
    }
  }

  #received(socket: WebSocket, data: RawData, isBinary: boolean): void {
    const bytes = data as Buffer;
    if (this.kind === 'stock') this.#message(bytes);
    else if (isBinary) {
      const seq = Number(bytes.readBigUInt64LE(0));
      const frame = bytes.subarray(NUMBERED_HEADER_BYTES);
      this.#message(frame);
      if (seq > 0) {
        this.#remember(frame);
        this.#took(socket, seq);
      }
    } else {
      const note = JSON.parse(bytes.toString('utf8')) as { op: string; position: number };
      if (note.op === 'attached' || note.op === 'live') this.#took(socket, note.position);
    }
  }

  #remember(frame: Buffer): void {
    const { channel, parts } = decodeV1(frame);
    const { msg_id: id } = JSON.parse(parts[0]?.toString('utf8') ?? '{}') as { msg_id: string };
    this.#lastIds.set(channel, id);
  }

  #took(socket: WebSocket, seq: number): void {
    this.#taken = seq;
    if (this.#acknowledging) return;
    this.#acknowledging = true;
    setImmediate(() => {
      this.#acknowledging = false;
      if (socket === this.#socket && this.isOpen)
        socket.send(JSON.stringify({ op: 'ack', seq: this.#taken }));
    });
  }

  #message(frame: Buffer): void {
    const { channel, parts } = decodeV1(frame);
    const [header, parent, metadata, content] = parts.map(part => part.toString('utf8'));
    const { msg_type: type } = JSON.parse(header ?? '{}') as { msg_type: string };
    const output = JSON.parse(content ?? '{}') as Content;
    const requested = (JSON.parse(parent ?? '{}') as { msg_id?: string }).msg_id ?? '';
    const gap = (JSON.parse(metadata ?? '{}') as { tpulab?: { gap?: object } }).tpulab?.gap;
    if (gap) this.gaps.push(output.text ?? '');
    else if (type === 'stream') this.#show(output.text ?? '');
    else if (type === 'display_data') this.#show(output.data?.['text/plain'] ?? '');
    else if (type === 'status') this.#status(requested, output.execution_state ?? '');
    else if (type === 'input_request') this.questions.push(output.prompt ?? '');
    else if (channel === 'shell' && type === 'execute_reply') {
      this.replies.push(requested);
      this.replyStatus.set(requested, output.status ?? '');
    } else if (channel === 'control') this.#controlled.add(requested);
  }

  #show(text: string): void {
    for (const number of numbersIn(text)) {
      this.shown.push(number);
      this.greatest = Math.max(this.greatest, number);
    }
  }

  #status(requested: string, state: string): void {
    this.states.push(state);
    if (state === 'idle') this.idle.add(requested);
  }
}
