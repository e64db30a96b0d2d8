/** All events for pages: telemetry of the kernels, their states, and their clients. */
import { TypeCompiler } from '@sinclair/typebox/compiler';
import {
  type ClientEvent,
  type EventTopic,
  type KernelEvent,
  type MachineEvent,
  type MediaMessage,
  type NoticeEvent,
  type RemoteEvent,
  type RemoteNotice,
  type TelemetryEvent,
  TelemetryMessage
} from '@tpulab/protocol';
import type { Logger } from 'pino';
import type { TelemetryRecord } from '../keeper-protocol/contract.js';
import { type HistoryLimits, TelemetryHistory } from '../keeper-protocol/telemetry-history.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import type { Kernel } from '../kernels/kernel.js';

/**
 * Limits of the history for pages: the current state and the newest few thousand steps. Earlier data is in the archive of
 * runs, which a page requests once.
 */
const HISTORY: HistoryLimits = { messages: 4_000, bytes: 2 * 1024 * 1024 };

/**
 * Telemetry of all kernels together for a page that has none: on 10 Mbit/s, 1.2 s together with everything else, and over a
 * thousand steps.
 */
const FIRST_LOAD_BYTES = 240 * 1024;

type ClientChange = Omit<ClientEvent, 'topic'>;

/** Source of the clients of the kernels; the channels implement it. */
interface ClientSource {
  clients(): ClientChange[];
  listen(listener: (change: ClientChange) => void): Disposable;
}

/** Source of the machine's samples, which are more frequent while a page is visible. */
export interface MachineSource {
  readonly newest: MachineEvent | null;
  listen(listener: (event: MachineEvent) => void): Disposable;
  watch(): Disposable;
}

interface RemoteEventSource {
  /** One for each remote, with its current state. */
  events(): RemoteEvent[];
  listen(listener: (event: RemoteEvent) => void): Disposable;
}

/** Source of the cloud's announcements for this machine. */
interface NoticeSource {
  readonly notice: RemoteNotice | null;
  listen(listener: (notice: RemoteNotice | null) => void): Disposable;
}

/** An event with its JSON text; telemetry also has its number in its kernel's history. */
export interface SourcedEvent {
  readonly topic: EventTopic;
  /** null for events of the machine. */
  readonly kernelId: string | null;
  /** null for events that have no history. */
  readonly seq: number | null;
  readonly json: string;
  /** A medium such as a picture, whose data is not in `json`: pages request it when they show it. */
  readonly medium?: MediaMessage;
}

/** Telemetry in the form for pages, as JSON text: it is sent many times and never parsed again. */
interface StoredEvent extends TelemetryRecord {
  readonly topic: EventTopic;
}

export class EventSource implements Disposable {
  readonly #listeners = new Set<(event: SourcedEvent) => void>();
  readonly #histories = new Map<string, TelemetryHistory<StoredEvent>>();
  /** Last state sent for each kernel, to leave out updates that change nothing for pages. */
  readonly #sentStates = new Map<string, string>();
  readonly #listening: Disposable[];

  constructor(
    private readonly registry: KernelRegistry,
    private readonly clients: ClientSource,
    private readonly log: Logger,
    private readonly machine: MachineSource | null = null,
    private readonly remotes: RemoteEventSource | null = null,
    private readonly notices: { readonly gatewayId: string; readonly source: NoticeSource } | null = null
  ) {
    this.#listening = [
      registry.listen({ added: kernel => this.#follow(kernel), removed: kernel => this.#removed(kernel) }),
      clients.listen(change => this.#emit(clientEvent(change))),
      ...(machine ? [machine.listen(event => this.#emit(unnumbered(event)))] : []),
      ...(remotes ? [remotes.listen(event => this.#emit(unnumbered(event)))] : []),
      ...(notices
        ? [
            notices.source.listen(notice =>
              this.#emit(unnumbered({ topic: 'devices', gatewayId: notices.gatewayId, notice }))
            )
          ]
        : [])
    ];
  }

  listen(listener: (event: SourcedEvent) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** Enables expensive work for as long as a page is subscribed to these topics. */
  watch(topics: ReadonlySet<EventTopic>): Disposable | null {
    return topics.has('devices') ? (this.machine?.watch() ?? null) : null;
  }

  /** Kernel id to the oldest telemetry seq still stored. */
  historyFrom(): Record<string, number> {
    return Object.fromEntries(
      [...this.#histories].map(([kernelId, history]) => [kernelId, history.firstSeq])
    );
  }

  /** The first events for a page that has seen telemetry up to `since`: history, then the current state. */
  *past(topics: ReadonlySet<EventTopic>, since: Readonly<Record<string, number>>): Generator<SourcedEvent> {
    let left = FIRST_LOAD_BYTES;
    let unseen = [...this.#histories.keys()].filter(kernelId => since[kernelId] === undefined).length;
    // Smallest first, so that the rest of a kernel's share goes to the others.
    for (const [kernelId, history] of [...this.#histories].sort(([, a], [, b]) => a.bytes - b.bytes)) {
      const seen = since[kernelId];
      const events = seen === undefined ? history.newest(left / unseen) : history.after(seen);
      if (seen === undefined) {
        unseen -= 1;
        left -= events.reduce((sum, { json }) => sum + json.length, 0);
      }
      for (const event of events) if (topics.has(event.topic)) yield { ...event, kernelId };
    }
    const sample = topics.has('devices') ? this.machine?.newest : null;
    if (sample) yield unnumbered(sample);
    const notices = topics.has('devices') ? this.notices : null;
    if (notices?.source.notice)
      yield unnumbered({
        topic: 'devices',
        gatewayId: notices.gatewayId,
        notice: notices.source.notice
      });
    if (topics.has('remotes')) for (const event of this.remotes?.events() ?? []) yield unnumbered(event);
    if (topics.has('kernels')) for (const kernel of this.registry.list()) yield kernelEvent(kernel, false);
    if (topics.has('clients')) for (const change of this.clients.clients()) yield clientEvent(change);
  }

  [Symbol.dispose](): void {
    for (const listening of this.#listening) listening[Symbol.dispose]();
    this.#listeners.clear();
  }

  #follow(kernel: Kernel): void {
    this.#histories.set(kernel.id, new TelemetryHistory(HISTORY));
    kernel.listen({
      telemetry: record => this.#telemetry(kernel.id, record),
      changed: () => {
        const event = kernelEvent(kernel, false);
        if (this.registry.find(kernel.id) !== kernel || this.#sentStates.get(kernel.id) === event.json)
          return;
        this.#sentStates.set(kernel.id, event.json);
        this.#emit(event);
      }
    });
    kernel.followTelemetry().catch((error: unknown) => {
      this.log.error({ kernelId: kernel.id, err: error }, 'telemetry of this kernel cannot be followed');
    });
    this.#emit(kernelEvent(kernel, false));
  }

  #removed(kernel: Kernel): void {
    this.#histories.delete(kernel.id);
    this.#sentStates.delete(kernel.id);
    this.#emit(kernelEvent(kernel, true));
  }

  #telemetry(kernelId: string, record: TelemetryRecord): void {
    const checked = topicOf(record.json);
    if ('fault' in checked) {
      this.log.warn({ kernelId, seq: record.seq, fault: checked.fault }, 'telemetry left out');
      return;
    }
    const { seq } = record;
    const { topic, message } = checked;
    const medium = message.type === 'media' && message;
    const data = medium ? JSON.stringify({ ...medium, data: undefined }) : record.json;
    const json = `{"topic":"${topic}","kernelId":${JSON.stringify(kernelId)},"seq":${seq},"data":${data}}`;
    const event: StoredEvent = { seq, topic, json };
    this.#histories.get(kernelId)?.add(event, message);
    this.#emit({ ...event, kernelId, ...(medium && { medium }) });
  }

  #emit(event: SourcedEvent): void {
    for (const listener of this.#listeners) listener(event);
  }
}

function kernelEvent(kernel: Kernel, removed: boolean): SourcedEvent {
  const { specName, executionState, reason } = kernel.snapshot;
  return untracked({
    topic: 'kernels',
    kernelId: kernel.id,
    name: specName,
    executionState,
    connections: kernel.connections,
    reason,
    removed,
    ...(kernel.journalFault === null ? {} : { journalFault: kernel.journalFault })
  });
}

function clientEvent(change: ClientChange): SourcedEvent {
  return untracked({ topic: 'clients', ...change });
}

/** Events of the machine and of remotes: no kernel has sent them. */
function unnumbered(event: MachineEvent | NoticeEvent | RemoteEvent): SourcedEvent {
  return { topic: event.topic, kernelId: null, seq: null, json: JSON.stringify(event) };
}

function untracked(event: KernelEvent | ClientEvent): SourcedEvent {
  return { topic: event.topic, kernelId: event.kernelId, seq: null, json: JSON.stringify(event) };
}

/** The topic under which pages receive each type of message from an agent. */
const TOPICS: Readonly<Record<TelemetryMessage['type'], TelemetryEvent['topic']>> = {
  // A hello means that a new process of the kernel reports, which matters first to a page that shows its devices.
  hello: 'devices',
  devices: 'devices',
  run: 'runs',
  steps: 'steps',
  figures: 'steps',
  media: 'steps',
  band: 'steps',
  pace: 'steps',
  hosts: 'steps',
  compile: 'compile',
  control: 'runs',
  advice: 'runs',
  'memory-error': 'runs',
  memory: 'runs',
  profile: 'runs'
};

const checker = TypeCompiler.Compile(TelemetryMessage);

type Checked =
  | { readonly topic: TelemetryEvent['topic']; readonly message: TelemetryMessage }
  | { readonly fault: string };

/** The topic of a message, or a short description of its error. */
function topicOf(json: string): Checked {
  const message: unknown = JSON.parse(json);
  if (checker.Check(message)) return { topic: TOPICS[message.type], message };
  const type = (message as { type?: unknown } | null)?.type;
  return { fault: `not a valid message of type ${JSON.stringify(type)}` };
}
