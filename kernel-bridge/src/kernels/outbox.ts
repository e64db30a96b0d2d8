/**
 * Requests of clients for the keeper. They stay until they appear in the journal: they wait here during a search for the keeper,
 * and requests that a killed keeper had received and not written are sent to its successor.
 */
import { FROM_CLIENT, type JournalRecord, RecordChannel } from '../journal/record.js';
import { messageIdIn } from '../jupyter/index.js';

/**
 * A running keeper journals a request within milliseconds. It has dropped older ones, for example because the kernel is
 * dead.
 */
const FORGET_MS = 30_000;

interface Request {
  readonly msgId: string;
  /** A v1 frame. */
  readonly frame: Buffer;
  /** Null while the request waits. */
  sentAt: number | null;
}

export class Outbox {
  /** In the order in which clients sent them. */
  #requests: Request[] = [];

  get isEmpty(): boolean {
    return this.#requests.length === 0;
  }

  add(msgId: string, frame: Buffer): void {
    const oldest = performance.now() - FORGET_MS;
    if ((this.#requests[0]?.sentAt ?? oldest) < oldest) {
      this.#requests = this.#requests.filter(({ sentAt }) => sentAt === null || sentAt >= oldest);
    }
    this.#requests.push({ msgId, frame, sentAt: null });
  }

  /** Returns the waiting requests, which count as sent from now on. */
  takeWaiting(): Buffer[] {
    const waiting = this.#requests.filter(({ sentAt }) => sentAt === null);
    const now = performance.now();
    for (const request of waiting) request.sentAt = now;
    return waiting.map(({ frame }) => frame);
  }

  /** Sent requests may not have been read: all of them wait again. */
  requeueSent(): void {
    for (const request of this.#requests) request.sentAt = null;
  }

  /** No keeper is left to receive the requests; returns how many were dropped. */
  dropWaiting(): number {
    const before = this.#requests.length;
    this.#requests = this.#requests.filter(({ sentAt }) => sentAt !== null);
    return before - this.#requests.length;
  }

  journaled({ channel, payload }: JournalRecord): void {
    if (this.isEmpty || (channel & FROM_CLIENT) === 0 || channel === RecordChannel.bridge) return;
    const id = messageIdIn(payload);
    const at = this.#requests.findIndex(({ msgId, sentAt }) => msgId === id && sentAt !== null);
    if (at >= 0) this.#requests.splice(at, 1);
  }
}
