/** A kernel with its own keeper process in temporary folders, and the messages that a test has received. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { JournalReader } from '../../journal/journal-reader.js';
import { FROM_CLIENT, type JournalRecord, RecordChannel } from '../../journal/record.js';
import {
  type KernelMessage,
  parseHeader,
  parseObject,
  parseParentHeader,
  PART
} from '../../jupyter/kernel-message.js';
import { decodeV1, encodeV1 } from '../../jupyter/v1-frame.js';
import { attachOrAdopt, startKeeper } from '../../keeper-client/access.js';
import { attachKeeper } from '../../keeper-client/attach.js';
import type {
  KeeperEvents,
  KernelSnapshot,
  LaunchDescription,
  TelemetryRecord
} from '../../keeper-protocol/contract.js';
import type { KeeperClient } from '../../keeper-client/client.js';
import type { SpareKeeper } from '../../keeper-client/spare-keeper.js';
import { builtKeeper } from './built-keeper.js';

const TINY_KERNEL = fileURLToPath(new URL('./tiny-kernel.mjs', import.meta.url));

/** Generous: the machine may be busy with other things. */
const PATIENCE_MS = 120_000;

/** One record in the form that tests use. */
export interface Seen {
  readonly record: JournalRecord;
  readonly fromClient: boolean;
  readonly channel: string;
  readonly type: string;
  readonly session: string;
  readonly parentId: string | null;
  readonly content: Record<string, unknown>;
  readonly message: KernelMessage;
}

/** The messages that one gateway has received. */
export class GatewayView implements KeeperEvents {
  readonly records: JournalRecord[] = [];
  readonly states: KernelSnapshot[] = [];
  readonly telemetryRecords: TelemetryRecord[] = [];
  readonly faults: ({ code: string; message: string } | null)[] = [];
  isDisconnected = false;
  readonly #watchers = new Set<() => void>();

  record(record: JournalRecord): void {
    this.records.push(record);
    this.#notify();
  }

  state(snapshot: KernelSnapshot): void {
    this.states.push(snapshot);
    this.#notify();
  }

  telemetry(record: TelemetryRecord): void {
    this.telemetryRecords.push(record);
    this.#notify();
  }

  journalFault(fault: { code: string; message: string } | null): void {
    this.faults.push(fault);
    this.#notify();
  }

  disconnected(): void {
    this.isDisconnected = true;
    this.#notify();
  }

  get messages(): Seen[] {
    return this.records.filter(record => record.channel !== RecordChannel.bridge).map(seen);
  }

  /** Text of all stream messages. */
  get text(): string {
    return this.messages
      .filter(({ type }) => type === 'stream')
      .map(({ content }) => String(content['text']))
      .join('');
  }

  /** Text of the stream messages that one request has caused. */
  textOf(msgId: string): string {
    return this.messages
      .filter(({ type, parentId }) => type === 'stream' && parentId === msgId)
      .map(({ content }) => String(content['text']))
      .join('');
  }

  /** Waits for something to become true, checking after each event. */
  until(what: string, holds: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (error?: Error): void => {
        clearTimeout(timer);
        this.#watchers.delete(check);
        if (error === undefined) {
          resolve();
        } else {
          reject(error);
        }
      };
      const check = (): void => {
        try {
          if (holds()) {
            settle();
          }
        } catch (error) {
          settle(error as Error);
        }
      };
      const timer = setTimeout(() => {
        const state = this.states.at(-1)?.executionState;
        settle(
          new Error(`Waited in vain until ${what}; ${this.records.length} records, last state ${state}.`)
        );
      }, PATIENCE_MS);
      this.#watchers.add(check);
      check();
    });
  }

  untilState(state: KernelSnapshot['executionState']): Promise<void> {
    return this.until(`the kernel is ${state}`, () => {
      const last = this.states.at(-1);
      if (last?.executionState === 'dead' && state !== 'dead') {
        throw new Error(`The kernel is dead: ${last.reason}`);
      }
      return last?.executionState === state;
    });
  }

  /**
   * Resolves with the reply to a request when both the reply and the idle status of its execution have arrived. They come
   * over different sockets, so either may be far ahead of the other: `earlier` are records that were read elsewhere and may
   * contain one of them.
   */
  async untilDone(msgId: string, earlier: readonly JournalRecord[] = []): Promise<Seen> {
    const isReply = ({ type, parentId, channel }: Seen): boolean =>
      parentId === msgId && channel === 'shell' && type.endsWith('_reply');
    const isIdle = ({ type, parentId, content }: Seen): boolean =>
      parentId === msgId && type === 'status' && content['execution_state'] === 'idle';
    let readUpTo = 0;
    let reply: Seen | undefined;
    let idle = false;
    const watch = (record: JournalRecord): void => {
      if (record.channel === RecordChannel.bridge) return;
      const message = seen(record);
      reply = isReply(message) ? message : reply;
      idle ||= isIdle(message);
    };
    earlier.forEach(watch);
    await this.until(`request ${msgId} is done`, () => {
      for (; readUpTo < this.records.length; readUpTo++) {
        watch(this.records[readUpTo]!);
      }
      return reply !== undefined && idle;
    });
    return reply!;
  }

  readonly #notify = (): void => this.#watchers.forEach(watcher => watcher());
}

function seen(record: JournalRecord): Seen {
  const message = decodeV1(record.payload);
  const header = parseHeader(message.parts[PART.header]!);
  return {
    record,
    fromClient: (record.channel & FROM_CLIENT) !== 0,
    channel: message.channel,
    type: header.msg_type,
    session: header.session,
    parentId: parseParentHeader(message.parts[PART.parentHeader]!)?.msg_id ?? null,
    content: parseObject(message.parts[PART.content]!, 'content'),
    message
  };
}

export class KeeperFixture implements AsyncDisposable {
  readonly session = randomUUID();
  readonly #clients: KeeperClient[] = [];

  private constructor(
    private readonly root: string,
    readonly launch: LaunchDescription,
    readonly entry: URL
  ) {}

  /** Short folders: the paths of sockets are limited. */
  static async create(
    changes: Partial<LaunchDescription> = {},
    kernelFlags: readonly string[] = []
  ): Promise<KeeperFixture> {
    const root = await mkdtemp(join(tmpdir(), 'tk-'));
    const launch: LaunchDescription = {
      kernelId: randomUUID(),
      specName: 'tiny',
      displayName: 'Tiny',
      argv: [process.execPath, TINY_KERNEL, '{connection_file}', ...kernelFlags],
      resourceDir: null,
      env: { PATH: process.env['PATH'] ?? '', HOME: root },
      cwd: root,
      interruptMode: 'signal',
      bestEffort: true,
      runDir: join(root, 'run'),
      restartLimit: 2,
      shutdownWaitMs: 4_000,
      ...changes
    };
    return new KeeperFixture(root, launch, await builtKeeper());
  }

  get kernelDir(): string {
    return join(this.root, 'kernel');
  }

  async start(view: GatewayView, spare?: SpareKeeper): Promise<KeeperClient> {
    const options = { entry: this.entry, ...(spare && { spare }) };
    const client = await startKeeper(this.launch, { kernelDir: this.kernelDir }, view, options);
    this.#clients.push(client);
    view.states.push(client.snapshot);
    return client;
  }

  /** Resolves when the kernel is started, subscribed and idle. */
  async ready(view: GatewayView): Promise<KeeperClient> {
    const client = await this.start(view);
    await client.subscribe();
    await view.untilState('idle');
    return client;
  }

  async attach(view: GatewayView): Promise<KeeperClient> {
    const client = await attachKeeper(this.kernelDir, view);
    this.#clients.push(client);
    view.states.push(client.snapshot);
    return client;
  }

  /** Attaches like a gateway that has lost its connection, or was restarted. */
  async attachOrAdopt(view: GatewayView): Promise<KeeperClient> {
    const client = await attachOrAdopt(this.kernelDir, view, { entry: this.entry });
    this.#clients.push(client);
    view.states.push(client.snapshot);
    return client;
  }

  /** Everything in the journal, read from the beginning. */
  async journaled(): Promise<GatewayView> {
    const view = new GatewayView();
    for await (const batch of new JournalReader(join(this.kernelDir, 'journal')).readAcross(1)) {
      batch.forEach(record => view.record(record));
    }
    return view;
  }

  /** A client's request as a v1 frame. */
  request(
    msgType: string,
    content: object,
    channel: KernelMessage['channel'] = 'shell'
  ): { msgId: string; frame: Buffer } {
    const msgId = randomUUID();
    const header = {
      msg_id: msgId,
      msg_type: msgType,
      session: this.session,
      username: 'test',
      date: new Date().toISOString(),
      version: '5.3'
    };
    const parts = [header, {}, {}, content].map(part => Buffer.from(JSON.stringify(part)));
    return { msgId, frame: encodeV1({ channel, parts }) };
  }

  /** Sends code; returns the id of the request. */
  execute(client: KeeperClient, code: string): string {
    const { msgId, frame } = this.request('execute_request', {
      code,
      silent: false,
      store_history: true,
      user_expressions: {},
      allow_stdin: true,
      stop_on_error: true
    });
    client.send(frame);
    return msgId;
  }

  /** The logs of keeper and kernel. */
  async logs(): Promise<string> {
    const texts = ['keeper.log', 'kernel.log'].map(name =>
      readFile(join(this.kernelDir, name), 'utf8').catch(() => '')
    );
    return (await Promise.all(texts)).join('');
  }

  /** Ends the keeper and its kernel, whatever their state. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) {
      await client[Symbol.asyncDispose]();
    }
    // Even a kernel that has lost its keeper.
    const client = await attachOrAdopt(this.kernelDir, new GatewayView(), { entry: this.entry }).catch(
      () => null
    );
    await client?.shutdown();
    await client?.[Symbol.asyncDispose]();
    // The keeper has answered, and still removes its own files.
    await rm(this.root, { recursive: true, force: true, maxRetries: 10 });
  }
}
