/**
 * The received messages of one kernel for one client of the page, over all sockets that it opens one after another.
 *
 * The gateway numbers its messages (`protocol/src/channels.ts`). The link stores the last delivered number, so that
 * the next socket continues there: no message is missing or repeated, whatever ended the previous socket.
 */

import { frameMark, idOfMark, type IFrameMark, sessionOfMark } from './message-id.js';

/** A message of the gateway; `seq` is 0 for a message that the gateway made itself and will not send again. */
interface INumberedFrame {
  readonly seq: number;
  /** A frame of `v1.kernel.websocket.jupyter.org`. */
  readonly data: ArrayBuffer;
}

/** Receives frames: the handlers of the open socket. */
export type Deliver = (data: ArrayBuffer) => void;

/** Bytes of frames that wait during a hold; above it the hold ends automatically and waits end. */
const MAX_HELD_BYTES = 64 * 1024 * 1024;

/** A pause in delivery to the kernel connection. Ends with `finish`, with the socket, or with too much waiting. */
class Hold {
  readonly #end: (first: readonly ArrayBuffer[], drop: (seq: number, data: ArrayBuffer) => boolean) => void;
  #isOver = false;

  constructor(
    end: (first: readonly ArrayBuffer[], drop: (seq: number, data: ArrayBuffer) => boolean) => void
  ) {
    this.#end = end;
  }

  /** True once frames pass again, even after a lost socket; then nothing must be inserted. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Delivers `first`, then the waiting frames except those dropped by `drop`, then everything as it arrives. */
  finish(
    first: readonly ArrayBuffer[] = [],
    drop: (seq: number, data: ArrayBuffer) => boolean = () => false
  ): void {
    if (!this.#isOver) {
      this.#isOver = true;
      this.#end(first, drop);
    }
  }

  /** The socket has closed: waiting frames are sent again to the next socket. */
  lost(): void {
    this.#isOver = true;
  }
}

export class ChannelLink {
  /** Sessions whose replies and questions this client takes over; named when a socket is opened. */
  readonly predecessors = new Set<string>();
  /** Changes a message of the gateway before it is delivered; null: no changes. */
  rewrite: ((data: ArrayBuffer) => ArrayBuffer) | null = null;
  /** Whether a message of the page needs no kernel, because it was answered here. */
  answers: ((data: ArrayBuffer) => boolean) | null = null;
  /** Called before the first message of another process of the kernel is delivered. */
  restarted: (() => void) | null = null;

  #position: number | null = null;
  /** Per channel, the newest delivered message. */
  readonly #newest = new Map<string, IFrameMark>();
  /** The newest message on any channel; the gateway's own messages carry the kernel's session too. */
  #latest: IFrameMark | null = null;
  #deliver: Deliver | null = null;
  #hold: Hold | null = null;
  #held: INumberedFrame[] = [];
  #heldBytes = 0;
  readonly #unsent = new Set<string>();

  /** The newest delivered record; null before the gateway has sent this client's position. */
  get position(): number | null {
    return this.#position;
  }

  /**
   * Per channel, the id of the newest delivered message: where a journal was cut and its messages were renumbered,
   * the gateway uses these ids to find this client's position.
   */
  get last(): ReadonlyMap<string, string> {
    const ids = [...this.#newest.values()].flatMap(mark => {
      const id = idOfMark(mark);
      return id === null ? [] : [[mark.channel, id] as const];
    });
    return new Map(ids);
  }

  /** The kernel's session id, which changes with a restart; null before its first message. */
  get kernelSession(): string | null {
    return this.#latest === null ? null : sessionOfMark(this.#latest);
  }

  /** Whether a socket is open that numbers its messages. */
  get isNumbered(): boolean {
    return this.#deliver !== null;
  }

  /** A socket is being opened; messages that an earlier one still delivers are sent again to this one. */
  opening(): void {
    this.#deliver = null;
    this.#dropHold();
  }

  /** A socket has been attached: messages after `position` follow on it. */
  attached(position: number, deliver: Deliver): void {
    this.#dropHold();
    this.#position = position;
    this.#deliver = deliver;
  }

  /** The socket with this `deliver` has closed. */
  detached(deliver: Deliver): void {
    if (this.#deliver === deliver) {
      this.#deliver = null;
      this.#dropHold();
    }
  }

  received(frame: INumberedFrame, deliver: Deliver): void {
    if (this.#deliver !== deliver) {
      return; // from a replaced socket
    }
    if (this.#hold === null) {
      this.#pass(frame);
      return;
    }
    this.#held.push(frame);
    this.#heldBytes += frame.data.byteLength;
    if (this.#heldBytes > MAX_HELD_BYTES) this.#hold.finish();
  }

  /** Holds back messages from now on; null when no numbered socket is open or a hold is active already. */
  hold(): Hold | null {
    if (this.#deliver === null || this.#hold !== null) return null;
    this.#hold = new Hold((first, drop) => {
      const held = this.#held;
      this.#hold = null;
      this.#held = [];
      this.#heldBytes = 0;
      first.forEach(data => this.#deliver?.(data));
      for (const frame of held) {
        if (drop(frame.seq, frame.data)) this.#has(frame);
        else this.#pass(frame);
      }
    });
    return this.#hold;
  }

  /** Hands a frame to the kernel connection as if the gateway had sent it. False while no socket is open. */
  insert(data: ArrayBuffer): boolean {
    this.#deliver?.(data);
    return this.#deliver !== null;
  }

  /** The next message with this id is not sent: the kernel has it from an earlier page. */
  skipSent(msgId: string): void {
    this.#unsent.add(msgId);
  }

  /** Whether a message may be sent; called once for each. */
  maySend(msgIdOf: () => string | null): boolean {
    if (this.#unsent.size === 0) return true;
    const id = msgIdOf();
    return id === null || !this.#unsent.delete(id);
  }

  #pass(frame: INumberedFrame): void {
    this.#has(frame);
    this.#deliver?.(this.rewrite?.(frame.data) ?? frame.data);
  }

  #has({ seq, data }: INumberedFrame): void {
    this.#position = Math.max(this.#position ?? 0, seq);
    const mark = frameMark(data);
    if (mark !== null) {
      const before = this.kernelSession;
      if (before !== null && sessionOfMark(mark) !== before) this.restarted?.();
      this.#latest = mark;
      if (seq !== 0) this.#newest.set(mark.channel, mark);
    }
  }

  #dropHold(): void {
    this.#hold?.lost();
    this.#hold = null;
    this.#held = [];
    this.#heldBytes = 0;
  }
}
