/** The gateway's end of the connection to one keeper. */
import type { Socket } from 'node:net';
import { join } from 'node:path';
import type { ControlCommand, ControlMessage } from '@tpulab/protocol';
import { JournalReader } from '../journal/journal-reader.js';
import type { JournalRecord } from '../journal/record.js';
import {
  type KeeperEvents,
  type KeeperHandle,
  KERNEL_START_MS,
  type KernelSnapshot
} from '../keeper-protocol/contract.js';
import { encodeJsonFrame, FrameDecoder, frameHeader, FrameType } from '../keeper-protocol/frames.js';
import { KeeperError, type KeeperErrorCode } from '../keeper-protocol/keeper-error.js';
import {
  type CommandReplies,
  KEEPER_PROTOCOL_VERSION,
  type KeeperEvent,
  parseEvent,
  parseReply,
  type Reply,
  type StatusReply
} from '../keeper-protocol/messages.js';
import { StoredPayloads } from '../keeper-protocol/stored-record.js';
import { guardEvents } from '@tpulab/platform/guard.js';
import { LiveFeed } from './feed.js';

/** How many bytes may wait for the keeper: it processes one large message while the next is still arriving. */
const MAX_QUEUED_BYTES = 4 * 1024 * 1024;

/** A keeper answers these commands from memory, so a longer silence means that it hangs. */
const ANSWER_MS = 10_000;

type Hello = Extract<KeeperEvent, { event: 'hello' }>;

export class KeeperClient implements KeeperHandle {
  readonly #decoder = new FrameDecoder();
  readonly #commands = new PendingCommands();
  readonly #ended = new AbortController();
  readonly #feed: LiveFeed;
  readonly #payloads: StoredPayloads;
  readonly #drains = new Set<{ resolve: () => void; reject: (error: Error) => void }>();
  #snapshot: KernelSnapshot;
  #lastSeq = 0;
  #lastTimeNs = 0n;
  #failure: Error | null = null;
  /** We end the connection, or know that the keeper will end it. */
  #endIsExpected = false;

  /** Takes ownership of the socket, whose first frame was `hello`. Later frames are still in the socket. */
  constructor(
    kernelDir: string,
    private readonly socket: Socket,
    private readonly hello: Hello,
    private readonly events: KeeperEvents
  ) {
    if (hello.version !== KEEPER_PROTOCOL_VERSION) {
      throw new KeeperError(
        'keeper_protocol',
        `The keeper speaks version ${hello.version}, this server ${KEEPER_PROTOCOL_VERSION}; end the kernel with the version that started it.`
      );
    }
    this.#snapshot = hello.snapshot;
    this.#payloads = new StoredPayloads(join(kernelDir, 'journal'));
    this.#feed = new LiveFeed(
      {
        payload: note => (events.wantsPayload?.(note.channel) === false ? null : this.#payloads.read(note)),
        journal: new JournalReader(join(kernelDir, 'journal')),
        subscribe: () => this.#request('subscribe', ANSWER_MS),
        pause: () => socket.pause(),
        resume: () => socket.resume()
      },
      record => this.#received(record),
      error => socket.destroy(error),
      this.#ended.signal
    );
    guardEvents(socket, error => socket.destroy(error as Error));
    socket.on('data', chunk => this.#read(chunk));
    socket.on('drain', () => this.#drained());
    socket.on('error', error => (this.#failure = error));
    socket.on('close', () => this.#closed());
    socket.resume();
  }

  get kernelId(): string {
    return this.#snapshot.kernelId;
  }

  get snapshot(): KernelSnapshot {
    const { lastSeq } = this.#snapshot;
    // Compared by number, not by the clock, which may have been set back.
    return lastSeq >= this.#lastSeq
      ? this.#snapshot
      : { ...this.#snapshot, lastSeq: this.#lastSeq, lastActivity: Number(this.#lastTimeNs / 1_000_000n) };
  }

  subscribe(): Promise<{ liveFrom: number }> {
    return this.#feed.subscribe();
  }

  subscribeTelemetry(since: number): Promise<{ historyFrom: number; lastSeq: number }> {
    return this.#request('telemetry', ANSWER_MS, { since });
  }

  send(frame: Buffer): boolean {
    if (!this.socket.writable) return false;
    this.socket.cork();
    this.socket.write(frameHeader(FrameType.message, frame.length));
    this.socket.write(frame);
    this.socket.uncork();
    return this.#hasRoom;
  }

  drain(): Promise<void> {
    if (this.#ended.signal.aborted) return Promise.reject(this.#disconnected());
    if (this.#hasRoom) return Promise.resolve();
    return new Promise((resolve, reject) => this.#drains.add({ resolve, reject }));
  }

  /** Above this limit, the stream is also above its own high-water mark, so it emits `drain` once it is empty. */
  get #hasRoom(): boolean {
    return this.socket.writableLength <= MAX_QUEUED_BYTES;
  }

  async control(command: ControlCommand): Promise<ControlMessage> {
    if (this.hello.features?.includes('control') !== true) {
      throw new KeeperError(
        'control_unavailable',
        'This kernel was started by an older version of the server; restart it to control its runs.'
      );
    }
    const { message } = await this.#request('control', ANSWER_MS, { command });
    return message;
  }

  async interrupt(): Promise<void> {
    await this.#request('interrupt', ANSWER_MS);
  }

  async restart(): Promise<KernelSnapshot> {
    const { snapshot } = await this.#request(
      'restart',
      this.hello.shutdownWaitMs + KERNEL_START_MS + ANSWER_MS
    );
    return snapshot;
  }

  async shutdown(): Promise<void> {
    await this.#request('shutdown', this.hello.shutdownWaitMs + 2 * ANSWER_MS);
    this.#endIsExpected = true;
  }

  /** Requests the state, and the kernel's own information. */
  status(): Promise<StatusReply> {
    return this.#request('status', ANSWER_MS);
  }

  /** Ends the connection; the keeper and its kernel continue. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#endIsExpected = true;
    if (this.socket.closed) return;
    await new Promise<void>(resolve => {
      this.socket.once('close', () => resolve());
      this.socket.destroy();
    });
  }

  #request<Op extends keyof CommandReplies>(
    op: Op,
    timeoutMs: number,
    fields: object = {}
  ): Promise<CommandReplies[Op]> {
    return this.#commands.request(op, timeoutMs, id => {
      this.socket.write(encodeJsonFrame(FrameType.command, { id, op, ...fields }));
    });
  }

  #read(chunk: Buffer): void {
    try {
      this.#decoder.push(chunk, (type, body) => this.#frame(type, body));
    } catch (error) {
      this.socket.destroy(error as Error);
    }
  }

  #frame(type: number, body: Buffer): void {
    switch (type) {
      case FrameType.records:
        this.#feed.take({ records: body });
        break;
      case FrameType.event:
        this.#event(parseEvent(body));
        break;
      case FrameType.reply:
        this.#commands.settle(parseReply(body));
        break;
      case FrameType.telemetry:
        this.events.telemetry({ seq: Number(body.readBigUInt64LE(0)), json: body.toString('utf8', 8) });
        break;
      default:
        throw new KeeperError('keeper_protocol', `The keeper sent a frame of unknown type ${type}.`);
    }
  }

  #event(event: KeeperEvent): void {
    switch (event.event) {
      case 'state':
        this.#snapshot = event.snapshot;
        this.events.state(this.snapshot);
        break;
      case 'lagging':
        this.#feed.take({ laggingFrom: event.fromSeq });
        break;
      case 'stored':
        this.#feed.take({ stored: event });
        break;
      case 'journal':
        this.events.journalFault?.(event.fault);
        break;
      case 'hello':
        throw new KeeperError('keeper_protocol', 'The keeper said hello twice.');
    }
  }

  #received(record: JournalRecord): void {
    this.#lastSeq = record.seq;
    this.#lastTimeNs = record.timeNs;
    this.events.record(record);
  }

  #drained(): void {
    for (const { resolve } of this.#drains) resolve();
    this.#drains.clear();
  }

  #closed(): void {
    this.#ended.abort();
    void this.#payloads[Symbol.asyncDispose]();
    const error = this.#disconnected();
    this.#commands.end(error);
    for (const { reject } of this.#drains) reject(error);
    this.#drains.clear();
    if (!this.#endIsExpected) this.events.disconnected(this.#failure);
  }

  #disconnected(): KeeperError {
    return new KeeperError(
      'keeper_disconnected',
      `The connection to the keeper of kernel ${this.kernelId} has ended.`,
      {
        cause: this.#failure
      }
    );
  }
}

/** Commands that wait for their reply. Every wait ends: with the reply, the deadline, or the end of the connection. */
interface Pending {
  readonly resolve: (value: object) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

class PendingCommands {
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #ended: Error | null = null;

  /** `send` is called with the id of the expected reply. */
  request<Op extends keyof CommandReplies>(
    op: Op,
    timeoutMs: number,
    send: (id: number) => void
  ): Promise<CommandReplies[Op]> {
    if (this.#ended !== null) return Promise.reject(this.#ended);
    const id = ++this.#lastId;
    return new Promise<object>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#pending.delete(id);
        reject(
          new KeeperError(
            'keeper_timeout',
            `The keeper did not answer "${op}" within ${timeoutMs} ms; see its keeper.log.`
          )
        );
      }, timeoutMs);
      this.#pending.set(id, { resolve, reject, timer });
      send(id);
    }) as Promise<CommandReplies[Op]>;
  }

  settle(reply: Reply): void {
    const pending = this.#pending.get(reply.id);
    if (pending === undefined) {
      return; // too late: its deadline has passed
    }
    this.#pending.delete(reply.id);
    clearTimeout(pending.timer);
    if (reply.ok) pending.resolve(reply.value);
    else pending.reject(new KeeperError(reply.code as KeeperErrorCode, reply.message));
  }

  end(error: Error): void {
    this.#ended = error;
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(error);
    }
    this.#pending.clear();
  }
}
