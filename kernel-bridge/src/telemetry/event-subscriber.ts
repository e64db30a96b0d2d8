/** One page on `/bridge/v1/events`: stores its subscription, and sends it events. */
import { guarded } from '@tpulab/platform/guard.js';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { type EventsFrame, type EventTopic, SubscribeRequest } from '@tpulab/protocol';
import type { RawData, WebSocket } from 'ws';
import type { SourcedEvent } from './event-source.js';
import type { ReadableEvents } from './readable-events.js';

/** A page gets more events as long as it has fewer unsent bytes than this. */
const FILL_BYTES = 1024 * 1024;
/** A page that leaves this much of live events unread is disconnected (1013); it reconnects with `since`. */
const MAX_UNREAD_BYTES = 8 * 1024 * 1024;
/** Events of a history are sent in groups, so that no frame is very large. */
const EVENTS_PER_FRAME = 200;

const requests = TypeCompiler.Compile(SubscribeRequest);

export class EventSubscriber {
  #topics: ReadonlySet<EventTopic> = new Set();
  #waiting: SourcedEvent[] = [];
  /** Bytes of live events that were added to `#waiting` since it was last empty. */
  #unreadBytes = 0;
  #scheduled: NodeJS.Immediate | null = null;
  #watching: Disposable | null = null;

  constructor(
    private readonly socket: WebSocket,
    private readonly source: ReadableEvents,
    private readonly gatewayId: string
  ) {
    const listening = source.listen(
      guarded(
        () => socket.terminate(),
        event => this.#deliver(event)
      )
    );
    socket.on('message', data => this.#receive(data));
    socket.on('error', () => socket.terminate());
    socket.on('close', () => {
      listening[Symbol.dispose]();
      this.#watching?.[Symbol.dispose]();
      if (this.#scheduled) clearImmediate(this.#scheduled);
    });
  }

  #receive(data: RawData): void {
    let request: unknown;
    try {
      request = JSON.parse(
        (Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer)).toString('utf8')
      );
    } catch {
      this.#refuse('the frame is not JSON');
      return;
    }
    if (!requests.Check(request)) {
      const fault = requests.Errors(request).First();
      this.#refuse(fault ? `${fault.path || 'the request'}: ${fault.message}` : 'the request is not valid');
      return;
    }
    this.#subscribe(request);
  }

  /** Subscribes in one turn of the event loop, so that no event is lost between history and live events. */
  #subscribe({ topics, since = {}, background = false }: SubscribeRequest): void {
    this.#waiting = [];
    this.#topics = new Set(topics);
    const before = this.#watching;
    this.#watching = background ? null : this.source.watch(this.#topics);
    before?.[Symbol.dispose]();
    const answer: EventsFrame = {
      op: 'subscribed',
      topics: [...this.#topics],
      gatewayId: this.gatewayId,
      historyFrom: this.source.historyFrom()
    };
    this.socket.send(JSON.stringify(answer));
    // Not spread into `push`: a long training has more events than a call accepts arguments.
    for (const event of this.source.past(this.#topics, since)) this.#waiting.push(event);
    this.#flush();
  }

  #refuse(what: string): void {
    const answer: EventsFrame = {
      op: 'error',
      code: 'invalid_request',
      message: `Not a subscription: ${what}; send {"op":"subscribe","topics":[…]}.`
    };
    this.socket.send(JSON.stringify(answer));
  }

  #deliver(event: SourcedEvent): void {
    if (!this.#topics.has(event.topic)) return;
    this.#waiting.push(event);
    this.#unreadBytes += event.json.length;
    if (this.#unreadBytes > MAX_UNREAD_BYTES) {
      this.#waiting = [];
      this.#topics = new Set();
      this.socket.close(1013, 'reading too slowly');
      return;
    }
    // Events of one turn of the event loop are sent in one frame.
    this.#schedule();
  }

  #schedule(): void {
    this.#scheduled ??= setImmediate(
      guarded(
        () => this.socket.terminate(),
        () => this.#flush()
      )
    );
  }

  /** Writes as much as the socket should buffer, and continues when that is sent. */
  #flush(): void {
    if (this.#scheduled) clearImmediate(this.#scheduled);
    this.#scheduled = null;
    let start = 0;
    while (start < this.#waiting.length && this.socket.bufferedAmount < FILL_BYTES) {
      if (this.socket.readyState !== this.socket.OPEN) return;
      const events = this.#waiting.slice(start, start + EVENTS_PER_FRAME);
      start += events.length;
      const isFull = start < this.#waiting.length;
      const frame = `{"op":"events","events":[${events.map(event => event.json).join(',')}]}`;
      if (isFull) this.socket.send(frame, () => this.#schedule());
      else this.socket.send(frame);
    }
    this.#waiting = this.#waiting.slice(start);
    if (this.#waiting.length === 0) this.#unreadBytes = 0;
  }
}
