/** How a kernel process is ended, and what its end means: a crash, one too many, or what a client asked for. */
import { STABLE_MS } from '../keeper-protocol/contract.js';
import { contentOf, type KernelMessage, type MessageHeader } from '../jupyter/kernel-message.js';
import type { KernelLife } from './kernel-life.js';
import { dropOldest } from '../platform/bounded.js';

export interface LadderOptions {
  /** From the request to SIGKILL. */
  readonly waitMs: number;
  readonly restart: boolean;
  /** A cell is running, so that the kernel would not come to read the request before it ends. */
  readonly busy: boolean;
}

/**
 * Ends a kernel process by the book: ask, insist, kill. The last step is never left out: a kernel in which jax.distributed
 * was initialised swallows SIGTERM and would otherwise keep its devices for ever.
 *
 * Resolves when the process group has gone; rejects with `kernel_unkillable`. Does not close the life's sockets.
 */
export async function endProcess(life: KernelLife, { waitMs, restart, busy }: LadderOptions): Promise<void> {
  const { process } = life;
  if (process.running) {
    if (busy) process.signal('SIGINT');
    life.requestShutdown(restart);
    if (!(await process.endsWithin(waitMs / 2))) {
      process.signal('SIGTERM');
      if (!(await process.endsWithin(waitMs / 2))) await process.kill();
    }
  }
  await process.groupEnded();
}

/** Counts crashes in a row, to tell a kernel that crashed from one that cannot run. */
export class CrashCount {
  #count = 0;

  /** `limit`: automatic restarts in a row. */
  constructor(private readonly limit: number) {}

  /** After a crash of a process that had been ready for so long. */
  mayRestart(readyForMs: number): boolean {
    this.#count = readyForMs >= STABLE_MS ? 1 : this.#count + 1;
    return this.#count <= this.limit;
  }

  /** Somebody asked for a restart, and so for another try. */
  forget(): void {
    this.#count = 0;
  }
}

/** A kernel that has answered a `shutdown_request` ends within this time, or goes on. */
const FAREWELL_MS = 30_000;

/**
 * A client may ask the kernel itself to end. Its end is then no crash, unless the kernel goes on: a crash hours later is one.
 */
export class RequestedEnd {
  #request: { readonly how: 'shutdown' | 'restart'; readonly msgId: string } | null = null;
  /** A request that came later on the same channel: when that is answered, the kernel has passed over the other. */
  #later: { readonly channel: string; readonly msgId: string } | null = null;
  #channel = '';
  #answeredAt: number | null = null;

  /** A request is on its way to the kernel. */
  sent(message: KernelMessage, { msg_type: type, msg_id: msgId }: MessageHeader): void {
    if (type === 'shutdown_request') {
      this.#request = { how: requestsRestart(message) ? 'restart' : 'shutdown', msgId };
      this.#channel = message.channel;
      this.#later = this.#answeredAt = null;
    } else if (this.#request !== null && message.channel === this.#channel) {
      this.#later ??= { channel: message.channel, msgId };
    }
  }

  /** The kernel has answered on shell or control. */
  answered({ msg_id: parent }: MessageHeader, now = performance.now()): void {
    if (parent === this.#request?.msgId) this.#answeredAt = now;
    else if (parent === this.#later?.msgId) this.forget();
  }

  forget(): void {
    this.#request = this.#later = this.#answeredAt = null;
  }

  /** What the end of the process is, when it ends now. */
  meaning(now = performance.now()): 'shutdown' | 'restart' | null {
    const isOver = this.#answeredAt !== null && now - this.#answeredAt > FAREWELL_MS;
    return isOver ? null : (this.#request?.how ?? null);
  }
}

/** Whether a client's `shutdown_request` asks for another process. */
function requestsRestart(message: KernelMessage): boolean {
  try {
    return contentOf(message)['restart'] === true;
  } catch {
    return false; // the kernel will not understand it either
  }
}

/** How many requests are remembered; who repeats one does so soon after a lost connection. */
const MAX_REMEMBERED = 10_000;

/** Executions that the journal has: asked for again by a client that does not know that, they are not run again. */
export class Executed {
  readonly #ids = new Set<string>();

  /** False: it is known already. */
  add(msgId: string): boolean {
    if (this.#ids.has(msgId)) return false;
    this.#ids.add(msgId);
    dropOldest(this.#ids, MAX_REMEMBERED);
    return true;
  }
}
