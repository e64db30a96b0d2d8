/** The newest telemetry of one kernel, so that a page that subscribes late sees what happened before. */
import type { TelemetryEvent } from '@tpulab/protocol';

export interface HeldEvent {
  readonly seq: number;
  readonly topic: TelemetryEvent['topic'];
  /** The `TelemetryEvent` as JSON text: it is sent many times and never looked at again. */
  readonly json: string;
}

/** The oldest events give way; pages learn from `historyFrom` where the history begins. */
export const HISTORY_EVENTS = 20_000;
export const HISTORY_BYTES = 16 * 1024 * 1024;

export class TelemetryHistory {
  #events: HeldEvent[] = [];
  /** Events before this index have given way; they are cut off now and then, not one by one. */
  #start = 0;
  #bytes = 0;
  readonly #limits: { readonly events: number; readonly bytes: number };

  constructor(limits = { events: HISTORY_EVENTS, bytes: HISTORY_BYTES }) {
    this.#limits = limits;
  }

  add(event: HeldEvent): void {
    this.#events.push(event);
    this.#bytes += event.json.length;
    while (this.#bytes > this.#limits.bytes || this.#events.length - this.#start > this.#limits.events) {
      const oldest = this.#events[this.#start];
      if (!oldest) break;
      this.#bytes -= oldest.json.length;
      this.#start++;
    }
    if (this.#start > 1024 && this.#start * 2 > this.#events.length) {
      this.#events = this.#events.slice(this.#start);
      this.#start = 0;
    }
  }

  /** seq of the oldest event still held; the next one when none is. */
  get from(): number {
    return this.#events[this.#start]?.seq ?? (this.#events.at(-1)?.seq ?? 0) + 1;
  }

  /** Events after `seq`, oldest first. */
  *after(seq: number): Generator<HeldEvent> {
    for (let index = this.#start; index < this.#events.length; index++) {
      const event = this.#events[index];
      if (event && event.seq > seq) yield event;
    }
  }
}
