/**
 * Asks the kernel's heartbeat socket whether its process still answers. The echo comes from a thread that a busy cell does
 * not hold up, so silence means a process that is stopped or swapped out. That is reported, never acted upon.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Request } from 'zeromq';

const PERIOD_MS = 10_000;
const ANSWER_MS = 5_000;

export class Heartbeat {
  readonly #stop = new AbortController();
  readonly #loop: Promise<void>;
  #socket: Request | null = null;
  #alive = false;

  constructor(
    private readonly address: string,
    private readonly onChange: (alive: boolean) => void
  ) {
    this.#loop = this.#beat();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#socket?.close();
    await this.#loop;
  }

  async #beat(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      this.#heard(await this.#ask());
      await delay(PERIOD_MS, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    }
  }

  #heard(alive: boolean): void {
    if (alive !== this.#alive && !this.#stop.signal.aborted) {
      this.#alive = alive;
      this.onChange(alive);
    }
  }

  async #ask(): Promise<boolean> {
    this.#socket ??= this.#connect();
    try {
      await this.#socket.send('ping');
      await this.#socket.receive();
      return true;
    } catch {
      // A REQ socket that has not been answered cannot ask again.
      this.#socket.close();
      this.#socket = null;
      return false;
    }
  }

  #connect(): Request {
    const socket = new Request({ linger: 0, receiveTimeout: ANSWER_MS, sendTimeout: ANSWER_MS });
    socket.connect(this.address);
    return socket;
  }
}
