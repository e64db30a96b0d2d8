/**
 * The bounded history of a kernel's telemetry: the keeper's, and the gateway's longer one for pages. When full, it first
 * drops steps, then replaced messages. The newest `hello` and `devices`, the newest state of each run, and compilations are
 * kept longest.
 */
import type { TelemetryRecord } from './contract.js';

export interface HistoryLimits {
  readonly messages: number;
  readonly bytes: number;
}

const DEFAULT_LIMITS: HistoryLimits = { messages: 4_000, bytes: 4 * 1024 * 1024 };

interface Entry<R> {
  readonly record: R;
  readonly bytes: number;
  /** The subject about which this message is the newest. */
  readonly subject: string | null;
}

export class TelemetryHistory<R extends TelemetryRecord = TelemetryRecord> {
  /** Messages that may be dropped first, in order of seq; the others are below. */
  readonly #expendable = new Map<number, Entry<R>>();
  readonly #retained = new Map<number, Entry<R>>();
  /** Subject to the seq of its newest message. */
  readonly #newest = new Map<string, number>();
  #bytes = 0;
  #lastSeq = 0;

  constructor(private readonly limits: HistoryLimits = DEFAULT_LIMITS) {}

  get bytes(): number {
    return this.#bytes;
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** The number of the oldest stored message, or of the next one if there is none. */
  get firstSeq(): number {
    const [oldestExpendable = Infinity] = this.#expendable.keys();
    const [oldestRetained = Infinity] = this.#retained.keys();
    return Math.min(oldestExpendable, oldestRetained, this.#lastSeq + 1);
  }

  /** Stores a message whose number is higher than all earlier ones. `message` is the agent's message, parsed. */
  add(record: R, message: Readonly<Record<string, unknown>>): R {
    this.#lastSeq = record.seq;
    const subject = subjectOf(message);
    const entry: Entry<R> = { record, bytes: record.json.length, subject };
    if (subject === null) {
      this.#expendable.set(record.seq, entry);
    } else {
      this.#supersede(subject);
      this.#newest.set(subject, record.seq);
      this.#retained.set(record.seq, entry);
    }
    this.#bytes += entry.bytes;
    this.#trim();
    return record;
  }

  /** Stored messages after `since`, oldest first. */
  after(since: number): R[] {
    return [...this.#expendable.values(), ...this.#retained.values()]
      .filter(entry => entry.record.seq > since)
      .map(entry => entry.record)
      .sort((a, b) => a.seq - b.seq);
  }

  /**
   * For a page that has nothing yet, oldest first: the current state, and the newest other messages of this many bytes
   * together. The run's earlier steps are in the archive.
   */
  newest(bytes: number): R[] {
    let left = bytes;
    // The states of runs come first: a long run was announced before all of its steps.
    const isState = ({ subject }: Entry<R>): boolean => STATES.test(subject ?? '');
    const retained = [...this.#retained.values()];
    const others = [...this.#expendable.values(), ...retained.filter(entry => !isState(entry))];
    return [retained.filter(isState), others]
      .flatMap(entries => entries.sort((a, b) => b.record.seq - a.record.seq))
      .filter(entry => (left -= entry.bytes) >= 0)
      .map(entry => entry.record)
      .sort((a, b) => a.seq - b.seq);
  }

  #supersede(subject: string): void {
    const previous = this.#newest.get(subject);
    const entry = previous === undefined ? undefined : this.#retained.get(previous);
    if (entry !== undefined) {
      this.#retained.delete(entry.record.seq);
      this.#expendable.set(entry.record.seq, entry);
    }
  }

  #trim(): void {
    while (
      this.#bytes > this.limits.bytes ||
      this.#expendable.size + this.#retained.size > this.limits.messages
    ) {
      const from = this.#expendable.size > 0 ? this.#expendable : this.#retained;
      const [oldest] = from.values();
      if (oldest === undefined) return;
      from.delete(oldest.record.seq);
      this.#bytes -= oldest.bytes;
      if (oldest.subject !== null && this.#newest.get(oldest.subject) === oldest.record.seq) {
        this.#newest.delete(oldest.subject);
      }
    }
  }
}

const STATES = /^(hello|devices|memory|profile|run |pace )/;

/** The subject about which a message is the newest; null for a message that may be dropped first. */
function subjectOf(message: Readonly<Record<string, unknown>>): string | null {
  switch (message['type']) {
    case 'hello':
    case 'devices':
    case 'memory':
    case 'profile':
      return message['type'];
    case 'run':
      return `run ${String(message['run'])}`;
    case 'control':
      return `control ${String(message['id'])}`;
    case 'pace':
      return `pace ${String(message['run'])}`;
    case 'hosts':
      return `hosts ${String(message['run'])}`;
    case 'advice':
    case 'memory-error':
      return `${message['type']} ${String(message['id'])}`;
    case 'compile':
      // A later run's message about the same program does not replace its compilation.
      return `compile ${String(message['id'])} ${message['reused'] ? String(message['run']) : ''}`;
    default:
      return null;
  }
}
