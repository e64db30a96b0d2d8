/** For specs: a client of a kernel's channels, like a Jupyter front end. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type GatewayNote, NUMBERED_HEADER_BYTES, NUMBERED_SUBPROTOCOL } from '@tpulab/protocol';
import { WebSocket } from 'ws';
import {
  type ChannelName,
  decodeLegacy,
  decodeV1,
  encodeLegacy,
  encodeV1,
  type KernelMessage
} from '../jupyter/index.js';

const V1 = 'v1.kernel.websocket.jupyter.org';
/** Generous: the machine may be busy with other things. */
const DEADLINE_MS = 60_000;

export interface ConnectOptions {
  readonly url: string;
  readonly token: string;
  readonly kernelId: string;
  /** Null: the URL names none. */
  readonly sessionId?: string | null;
  readonly protocols?: readonly string[];
  readonly resume?: number;
  readonly query?: string;
}

export interface Message {
  /** Only on numbered channels; otherwise null. */
  readonly seq: number | null;
  readonly channel: ChannelName;
  readonly header: { readonly msg_id: string; readonly msg_type: string; readonly session: string };
  readonly parent: { readonly msg_id?: string; readonly msg_type?: string; readonly session?: string };
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly content: Readonly<Record<string, unknown>>;
  readonly buffers: readonly Buffer[];
}

export class ChannelsClient implements Disposable {
  readonly messages: Message[] = [];
  /** Text frames on numbered channels. */
  readonly notes: GatewayNote[] = [];
  readonly sessionId: string;
  readonly #socket: WebSocket;
  readonly #waiting = new Set<() => void>();
  #closed: { code: number; reason: string } | null = null;

  private constructor(socket: WebSocket, sessionId: string) {
    this.#socket = socket;
    this.sessionId = sessionId;
    socket.on('message', (data, isBinary) => {
      if (socket.protocol === NUMBERED_SUBPROTOCOL && !isBinary) {
        this.notes.push(JSON.parse((data as Buffer).toString('utf8')) as GatewayNote);
      } else {
        this.messages.push(parse(data as Buffer, isBinary, socket.protocol));
      }
      this.#changed();
    });
    socket.on('close', (code, reason) => {
      this.#closed = { code, reason: reason.toString() };
      this.#changed();
    });
    socket.on('error', () => undefined);
  }

  static async connect(options: ConnectOptions): Promise<ChannelsClient> {
    const { url, token, kernelId, sessionId = randomUUID(), protocols = [V1], resume, query = '' } = options;
    const target = new URL(`api/kernels/${kernelId}/channels${query}`, url.replace(/^http/, 'ws'));
    target.searchParams.set('token', token);
    if (sessionId !== null) target.searchParams.set('session_id', sessionId);
    if (resume !== undefined) target.searchParams.set('resume', String(resume));
    const socket = new WebSocket(target, [...protocols]);
    // Registered before `open`, so that no early message is missed.
    const client = new ChannelsClient(socket, sessionId ?? randomUUID());
    await once(socket, 'open', { signal: AbortSignal.timeout(DEADLINE_MS) });
    return client;
  }

  get protocol(): string {
    return this.#socket.protocol;
  }

  get closed(): { code: number; reason: string } | null {
    return this.#closed;
  }

  send(
    channel: ChannelName,
    msgType: string,
    content: object,
    buffers: readonly Buffer[] = [],
    metadata: object = {},
    furtherHeader: object = {}
  ): string {
    const id = randomUUID();
    const own = { msg_id: id, msg_type: msgType, session: this.sessionId, username: '', version: '5.4' };
    const header = { ...own, ...furtherHeader };
    const parts = [header, {}, metadata, content].map(part => Buffer.from(JSON.stringify(part)));
    const message: KernelMessage = { channel, parts: [...parts, ...buffers] };
    this.#socket.send(this.protocol === '' ? encodeLegacy(message) : encodeV1(message));
    return id;
  }

  /** On numbered channels: confirms everything up to this number. */
  acknowledge(seq: number): void {
    this.sendRaw(JSON.stringify({ op: 'ack', seq }));
  }

  sendRaw(data: string | Buffer): void {
    this.#socket.send(data);
  }

  execute(code: string, options: object = {}, metadata: object = {}): string {
    const content = {
      code,
      silent: false,
      store_history: true,
      user_expressions: {},
      allow_stdin: false,
      stop_on_error: true,
      ...options
    };
    return this.send('shell', 'execute_request', content, [], metadata);
  }

  /** Sends a request and returns its reply, from the channel of the request. */
  async request(
    channel: 'shell' | 'control',
    msgType: string,
    content: object = {},
    furtherHeader: object = {}
  ): Promise<Message> {
    const id = this.send(channel, msgType, content, [], {}, furtherHeader);
    return this.first(({ parent, channel: from }) => from === channel && parent.msg_id === id);
  }

  /** Runs code; returns its messages, after its reply and its idle status have arrived. */
  async run(code: string): Promise<Message[]> {
    const id = this.execute(code);
    await this.done(id);
    return this.answers(id);
  }

  /** Resolves when the reply and the idle status of a request have arrived, in any order. */
  async done(id: string): Promise<void> {
    await this.until(() => this.answers(id).some(({ channel }) => channel === 'shell'));
    await this.until(() => this.answers(id).some(message => isStatus(message, 'idle')));
  }

  answers(id: string): Message[] {
    return this.messages.filter(({ parent }) => parent.msg_id === id);
  }

  /** The text that a request has printed so far. */
  printed(id: string): string {
    return this.answers(id)
      .filter(({ header }) => header.msg_type === 'stream')
      .map(({ content }) => content['text'])
      .join('');
  }

  first(test: (message: Message) => boolean): Promise<Message> {
    return this.until(() => this.messages.find(test));
  }

  /** The first true value of `check`, which is repeated after each message. */
  async until<T>(check: () => T | undefined | false | null): Promise<T> {
    const deadline = performance.now() + DEADLINE_MS;
    for (;;) {
      const found = check();
      if (found !== undefined && found !== false && found !== null) return found;
      if (performance.now() > deadline) throw new Error(`waited in vain for ${check.toString()}`);
      await new Promise<void>(resolve => {
        const again = (): void => {
          this.#waiting.delete(again);
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(again, DEADLINE_MS);
        this.#waiting.add(again);
      });
    }
  }

  untilClosed(): Promise<{ code: number; reason: string }> {
    return this.until(() => this.#closed);
  }

  /** Stops reading, so that the gateway's buffers fill. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Cuts the connection as a lost network would: without a close. */
  async abort(): Promise<void> {
    this.#socket.terminate();
    await this.untilClosed();
  }

  [Symbol.dispose](): void {
    this.#socket.terminate();
  }

  #changed(): void {
    for (const again of [...this.#waiting]) again();
  }
}

export function isStatus({ header, content }: Message, state: string): boolean {
  return header.msg_type === 'status' && content['execution_state'] === state;
}

function parse(data: Buffer, isBinary: boolean, protocol: string): Message {
  const isNumbered = protocol === NUMBERED_SUBPROTOCOL;
  const frame = isNumbered ? data.subarray(NUMBERED_HEADER_BYTES) : data;
  const { channel, parts } =
    isNumbered || protocol === V1 ? decodeV1(frame) : decodeLegacy(isBinary ? frame : frame.toString('utf8'));
  const json = (index: number): unknown => JSON.parse(parts[index]?.toString('utf8') ?? 'null');
  return {
    seq: isNumbered ? Number(data.readBigUInt64LE(0)) : null,
    channel,
    header: json(0) as Message['header'],
    parent: json(1) as Message['parent'],
    metadata: json(2) as Message['metadata'],
    content: json(3) as Message['content'],
    buffers: parts.slice(4)
  };
}
