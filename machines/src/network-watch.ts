/**
 * Reports a possible change of this machine's network: other addresses, or a clock that has jumped because the machine was
 * asleep. After either, a connection may be dead without any sign, and a new attempt may succeed immediately.
 */
import { networkInterfaces } from 'node:os';

const POLL_MS = 2_000;
/** Even a busy machine is never this late. */
const JUMP_MS = 10_000;

export type NetworkChange = 'addresses' | 'clock';

interface NetworkWatchOptions {
  readonly pollMs?: number;
  readonly now?: () => number;
  /** The addresses of this machine as a single text. */
  readonly addresses?: () => string;
}

export class NetworkWatch implements Disposable {
  readonly #listeners = new Set<(change: NetworkChange) => void>();
  readonly #now: () => number;
  readonly #addresses: () => string;
  readonly #pollMs: number;
  #timer: NodeJS.Timeout | null = null;
  #last = { at: 0, addresses: '' };

  constructor(options: NetworkWatchOptions = {}) {
    this.#now = options.now ?? Date.now;
    this.#addresses = options.addresses ?? addressesHere;
    this.#pollMs = options.pollMs ?? POLL_MS;
  }

  /** Without listeners, nothing is checked. */
  listen(listener: (change: NetworkChange) => void): Disposable {
    this.#listeners.add(listener);
    if (this.#timer === null) {
      this.#last = { at: this.#now(), addresses: this.#addresses() };
      this.#timer = setInterval(() => this.check(), this.#pollMs);
      this.#timer.unref();
    }
    return {
      [Symbol.dispose]: () => {
        this.#listeners.delete(listener);
        if (this.#listeners.size === 0) this.#stop();
      }
    };
  }

  check(): void {
    const before = this.#last;
    this.#last = { at: this.#now(), addresses: this.#addresses() };
    if (this.#last.at - before.at > this.#pollMs + JUMP_MS) this.#notify('clock');
    else if (this.#last.addresses !== before.addresses) this.#notify('addresses');
  }

  [Symbol.dispose](): void {
    this.#listeners.clear();
    this.#stop();
  }

  #stop(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }

  #notify(change: NetworkChange): void {
    for (const listener of [...this.#listeners]) listener(change);
  }
}

function addressesHere(): string {
  return Object.entries(networkInterfaces())
    .flatMap(([name, all]) => (all ?? []).map(({ cidr, address }) => `${name} ${cidr ?? address}`))
    .sort()
    .join('\n');
}
