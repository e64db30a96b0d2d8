/**
 * Joins the kernel's messages from the time without a keeper with its new ones: none lost, duplicated or out of order.
 *
 * The sockets are connected first, and their messages are queued. Once iopub has delivered one, the kernel's ring is
 * queried for all messages that the journal does not have: by then the ring and the socket overlap, so the ring's messages
 * come first and the queued ones follow, without those that were also in the ring. A reply that the kernel sent at the very
 * moment when its ROUTER learned our identity may be lost; so a little later the ring is queried once more for replies.
 *
 * A kernel of another launcher has no ring. Its messages from that time are unknown, and the gap states this.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { GapRecord } from '../journal/record.js';
import type { ChannelName, KernelMessage, MessageHeader } from '../jupyter/kernel-message.js';
import type { JournalTail } from './journal-tail.js';
import type { ResendLink, Resent } from './resend-link.js';
import type { KeeperLog } from './keeper-log.js';

/** Longer than libzmq delays its check for new connections. */
const SECOND_RESEND_MS = 500;
const ANSWERING: readonly ChannelName[] = ['shell', 'control', 'stdin'];

export interface Incoming {
  readonly message: KernelMessage;
  readonly header: MessageHeader;
  readonly parent: MessageHeader | null;
}

export interface TakeoverParts {
  readonly tail: JournalTail;
  /** Null: a kernel of another launcher. */
  readonly link: ResendLink | null;
  readonly routingId: string;
  readonly log: KeeperLog;
}

interface TakeoverTarget {
  /** Checks and parses frames; null for messages that are not for clients. */
  parse(channel: ChannelName, frames: Buffer[]): Incoming | null;
  deliver(incoming: Incoming): void;
  gap(gap: GapRecord): void;
}

export class Takeover {
  #buffered: Incoming[] | null = [];
  /**
   * By channel, the ring's messages: their socket may still deliver them later, when the machine is busy. A channel keeps
   * its order, so messages that were not in the ring come after all of them.
   */
  readonly #fromRing = new Map<ChannelName, Set<string>>();
  /** Replies that have been delivered or will be, until the second query. */
  #answers: Set<string> | null;
  /** Replies of the second query that may still arrive through their socket. */
  readonly #late = new Set<string>();
  #hasGap = false;

  constructor(
    private readonly parts: TakeoverParts,
    private readonly target: TakeoverTarget
  ) {
    this.#answers = parts.link === null ? null : new Set(parts.tail.answers);
    if (parts.link === null) {
      this.#recordGap(
        null,
        "it was not started by TPULab's launcher, so the output from this time cannot be recovered"
      );
      this.#buffered = null;
    }
  }

  /** Messages from the time without a keeper are missing. */
  get hasGap(): boolean {
    return this.#hasGap;
  }

  /** A live message: queued, or forwarded. */
  take(incoming: Incoming): void {
    const id = incoming.header.msg_id;
    if (this.#buffered !== null) {
      // Copies: frames are views into the socket's read buffer.
      const { channel, parts } = incoming.message;
      this.#buffered.push({ ...incoming, message: { channel, parts: parts.map(part => Buffer.from(part)) } });
    } else if (!this.#late.delete(id) && !this.#isFromRing(incoming)) {
      this.#remember(incoming);
      this.target.deliver(incoming);
    }
  }

  #isFromRing({ message: { channel }, header }: Incoming): boolean {
    if (this.#fromRing.get(channel)?.has(header.msg_id) === true) return true;
    this.#fromRing.delete(channel);
    return false;
  }

  /**
   * `proven` resolves when messages on iopub are known to arrive. Resolves when all earlier messages have been delivered,
   * and returns the requests to resend: those to which the kernel has not reacted. The kernel may have received them; a
   * kernel of our launcher drops a request that it has seen.
   */
  async run(proven: Promise<unknown>): Promise<readonly KernelMessage[]> {
    const { link, tail, routingId, log } = this.parts;
    await proven;
    if (link === null) return [];
    const answered = new Set<string>();
    try {
      const resent = await link.resend(tail.last, routingId);
      this.#merge(resent, answered);
      log.info({ messages: resent.messages.length, lost: resent.lost }, 'the kernel has sent again');
    } catch (error) {
      log.error({ err: error }, 'the kernel cannot send again');
      this.#recordGap(null, 'the kernel did not hand over what it printed in this time');
    }
    this.#release(answered);
    return tail.unanswered.filter(({ parts }) => !answered.has(idOf(parts)));
  }

  /** Call this after `run`. From then on the ring may be trimmed. */
  async resendReplies(signal: AbortSignal): Promise<void> {
    const { link, routingId, log } = this.parts;
    if (link === null) return;
    try {
      await delay(SECOND_RESEND_MS, undefined, { signal });
      const { messages } = await link.resend({}, routingId, ANSWERING);
      for (const { channel, frames } of messages) {
        const incoming = this.target.parse(channel, frames);
        if (incoming !== null && this.#answers?.has(incoming.header.msg_id) === false) {
          log.info({ channel }, 'a reply had not arrived');
          this.#late.add(incoming.header.msg_id);
          this.target.deliver(incoming);
        }
      }
    } catch (error) {
      log.debug({ err: error }, 'the kernel was not queried a second time');
    } finally {
      this.#answers = null;
    }
  }

  #merge({ messages, lost, exact }: Resent, answered: Set<string>): void {
    const missing = Object.values(lost).reduce((sum, count) => sum + count, 0);
    if (missing > 0) {
      const limit = exact ? '' : 'this is an upper bound, ';
      this.#recordGap(missing, `${limit}the kernel could hold no more for a keeper that was to come`);
    }
    for (const { channel, frames } of messages) {
      const incoming = this.target.parse(channel, frames);
      if (incoming !== null) {
        const ids = this.#fromRing.get(channel) ?? new Set();
        this.#fromRing.set(channel, ids.add(incoming.header.msg_id));
        this.#deliver(incoming, answered);
      }
    }
    this.#buffered = this.#buffered?.filter(incoming => !this.#isFromRing(incoming)) ?? null;
  }

  #release(answered: Set<string>): void {
    const buffered = this.#buffered ?? [];
    this.#buffered = null;
    buffered.forEach(incoming => this.#deliver(incoming, answered));
  }

  #deliver(incoming: Incoming, answered: Set<string>): void {
    if (incoming.parent !== null) answered.add(incoming.parent.msg_id);
    this.#remember(incoming);
    this.target.deliver(incoming);
  }

  #remember({ message, header }: Incoming): void {
    if (message.channel !== 'iopub') this.#answers?.add(header.msg_id);
  }

  #recordGap(count: number | null, why: string): void {
    const now = Date.now();
    this.#hasGap = true;
    this.target.gap({
      type: 'gap',
      count,
      code: 'keeper_lost',
      reason: `The keeper of this kernel had ended, and another one took over; ${why}.`,
      from: this.parts.tail.lastTimeMs ?? now,
      to: now
    });
  }
}

function idOf(parts: readonly Buffer[]): string {
  try {
    return (JSON.parse((parts[0] ?? Buffer.alloc(0)).toString('utf8')) as { msg_id: string }).msg_id;
  } catch {
    return '';
  }
}
