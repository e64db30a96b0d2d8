/**
 * Requests that were handed to a keeper and have not been seen in the journal. A keeper journals what it reads before anything
 * else, so when one is killed, these are the requests that it may never have read; the next one gets them again.
 */
import { FROM_CLIENT, type JournalRecord, RecordChannel } from '../journal/record.js';
import { decodeV1, parseHeader, PART } from '../jupyter/index.js';

/** A keeper that lives journals within milliseconds. What is older was dropped by it, for example because the kernel is dead. */
const FORGET_MS = 30_000;

interface Sent {
  readonly frame: Buffer;
  readonly at: number;
}

export class UnjournaledRequests {
  readonly #sent = new Map<string, Sent>();

  add(frame: Buffer): void {
    const id = messageId(frame);
    const now = performance.now();
    for (const [old, { at }] of this.#sent) {
      if (now - at < FORGET_MS) break;
      this.#sent.delete(old);
    }
    if (id !== null) this.#sent.set(id, { frame, at: now });
  }

  journaled({ channel, payload }: JournalRecord): void {
    if (this.#sent.size === 0 || (channel & FROM_CLIENT) === 0 || channel === RecordChannel.bridge) return;
    const id = messageId(payload);
    if (id !== null) this.#sent.delete(id);
  }

  /** In the order of sending; they count as sent anew. */
  takeAll(): Buffer[] {
    const frames = [...this.#sent.values()].map(({ frame }) => frame);
    this.#sent.clear();
    return frames;
  }
}

function messageId(frame: Buffer): string | null {
  try {
    return parseHeader(decodeV1(frame).parts[PART.header] ?? Buffer.alloc(0)).msg_id;
  } catch {
    return null; // the keeper will not take it either
  }
}
