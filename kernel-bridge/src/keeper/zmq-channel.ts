/** One ZMQ socket: receives in a loop, and sends in order although a zeromq socket takes one send at a time. */
import type { Dealer, Subscriber } from 'zeromq';

export class ReceivingSocket<S extends Dealer | Subscriber> {
  #received = 0;
  readonly #loop: Promise<void>;

  constructor(
    protected readonly socket: S,
    onFrames: (frames: Buffer[]) => void,
    onFailure: (error: unknown) => void
  ) {
    this.#loop = this.#receive(onFrames, onFailure).catch((error: unknown) => {
      if (!socket.closed) {
        onFailure(error);
      }
    });
  }

  /** Messages so far. With `readable`, tells whether all that has arrived has been taken. */
  get received(): number {
    return this.#received;
  }

  get readable(): boolean {
    return !this.socket.closed && this.socket.readable;
  }

  async close(): Promise<void> {
    this.socket.close();
    await this.#loop;
  }

  async #receive(onFrames: (frames: Buffer[]) => void, onFailure: (error: unknown) => void): Promise<void> {
    while (!this.socket.closed) {
      const frames = await this.socket.receive();
      this.#received++;
      try {
        onFrames(frames);
      } catch (error) {
        onFailure(error); // one message that we cannot deal with must not end the channel
      }
    }
  }
}

export class DealerSocket extends ReceivingSocket<Dealer> {
  #queue: Buffer[][] = [];
  #sending = false;

  /** With unbounded marks a send completes at once, unless a burst exceeds what zeromq does in one turn. */
  send(frames: Buffer[], onFailure: (error: unknown) => void): void {
    this.#queue.push(frames);
    if (!this.#sending) {
      this.#sending = true;
      void this.#drain(onFailure);
    }
  }

  async #drain(onFailure: (error: unknown) => void): Promise<void> {
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      try {
        await this.socket.send(next);
      } catch (error) {
        if (!this.socket.closed) {
          onFailure(error);
        }
      }
    }
    this.#sending = false;
  }
}
