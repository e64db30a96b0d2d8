/**
 * Asks the kernel's heartbeat socket whether its process still answers. The echo comes from a thread that a busy cell does
 * not hold up, so silence means a process that is stopped or swapped out. That is reported, never acted upon.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { ZmtpSocket } from '../jupyter/zmtp/zmtp-socket.js';

export interface HeartbeatTimes {
  /** Between an answer, or the end of waiting for one, and the next question. */
  readonly periodMs: number;
  readonly answerMs: number;
}

export const HEARTBEAT_TIMES: HeartbeatTimes = { periodMs: 10_000, answerMs: 5_000 };

/** A request of a REQ socket begins with an empty frame, and so does its answer. */
const PING = [Buffer.alloc(0), Buffer.from('ping')];

export class Heartbeat {
  readonly #stop = new AbortController();
  readonly #socket: ZmtpSocket;
  readonly #loop: Promise<void>;
  #echoed: () => void = () => undefined;
  #alive = false;

  constructor(
    endpoint: string,
    private readonly onChange: (alive: boolean) => void,
    private readonly times: HeartbeatTimes = HEARTBEAT_TIMES
  ) {
    this.#socket = new ZmtpSocket({
      type: 'REQ',
      endpoint,
      message: () => {
        // Also one that comes late, between two questions: the process lives.
        this.#heard(true);
        this.#echoed();
      },
      failed: () => undefined // it does not beat
    });
    this.#loop = this.#beat();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all([this.#socket.close(), this.#loop]);
  }

  async #beat(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      this.#heard(await this.#ask());
      await this.#pause(this.times.periodMs);
    }
  }

  #heard(alive: boolean): void {
    if (alive !== this.#alive && !this.#stop.signal.aborted) {
      this.#alive = alive;
      this.onChange(alive);
    }
  }

  /** True when an echo comes in time, be it that of an earlier question. */
  async #ask(): Promise<boolean> {
    const cancel = new AbortController();
    const echoed = new Promise<boolean>(resolve => {
      this.#echoed = () => resolve(true);
    });
    this.#socket.send(PING);
    const answered = await Promise.race([
      echoed,
      this.#pause(this.times.answerMs, cancel.signal).then(() => false)
    ]);
    cancel.abort();
    return answered;
  }

  async #pause(ms: number, cancelled?: AbortSignal): Promise<void> {
    const signal = cancelled ? AbortSignal.any([this.#stop.signal, cancelled]) : this.#stop.signal;
    await delay(ms, undefined, { signal }).catch(() => undefined);
  }
}
