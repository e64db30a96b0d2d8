/**
 * How much may wait for a kernel that is starting. The keeper queues requests until the kernel accepts them; a client that
 * sends without end meanwhile must not fill the keeper's memory.
 */
export interface QueueLimits {
  readonly requests: number;
  readonly bytes: number;
}

/** Enough for a notebook of a thousand cells, run as a whole. */
export const QUEUE_LIMITS: QueueLimits = { requests: 2_000, bytes: 64 * 1024 * 1024 };

export class StartQueue {
  #requests = 0;
  #bytes = 0;

  constructor(private readonly limits: QueueLimits) {}

  /** Whether one more request of this many bytes may wait. `isStarting`: requests are queued at present. */
  take(bytes: number, isStarting: boolean): boolean {
    if (!isStarting) {
      this.#requests = 0;
      this.#bytes = 0;
      return true;
    }
    if (this.#requests + 1 > this.limits.requests || this.#bytes + bytes > this.limits.bytes) return false;
    this.#requests++;
    this.#bytes += bytes;
    return true;
  }

  /** The kernel accepts requests: none is queued any more. */
  release(): void {
    this.#requests = 0;
    this.#bytes = 0;
  }
}
