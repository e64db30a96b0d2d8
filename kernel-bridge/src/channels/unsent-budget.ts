/**
 * Bounds the total cost of slow clients. Each feed is bounded; but messages may be large and clients many, so
 * when the unsent data in memory exceeds the limit, the client with the most is disconnected. It reconnects and is served
 * from the files.
 */
export interface BufferedClient {
  /** Bytes that were written to its socket and are not sent yet. */
  readonly unsentBytes: number;
  disconnectSlow(): void;
}

export const UNSENT_LIMIT_BYTES = 512 * 1024 * 1024;

export class UnsentBudget {
  readonly #clients = new Set<BufferedClient>();

  constructor(private readonly limitBytes: number) {}

  add(client: BufferedClient): void {
    this.#clients.add(client);
  }

  remove(client: BufferedClient): void {
    this.#clients.delete(client);
  }

  /** To be called when a client is congested. */
  check(): void {
    let total = 0;
    for (const client of this.#clients) total += client.unsentBytes;
    while (total > this.limitBytes) {
      let largest: BufferedClient | null = null;
      for (const client of this.#clients) {
        if (client.unsentBytes > (largest?.unsentBytes ?? 0)) largest = client;
      }
      if (!largest) return;
      total -= largest.unsentBytes;
      this.#clients.delete(largest);
      largest.disconnectSlow();
    }
  }
}
