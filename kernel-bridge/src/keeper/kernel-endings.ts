/** How a kernel process is ended, and how its end is classified: a crash, one crash too many, or a client's request. */
import { STABLE_MS } from '../keeper-protocol/contract.js';
import { contentOf, type KernelMessage, type MessageHeader } from '../jupyter/kernel-message.js';
import type { KernelLife } from './kernel-life.js';
import { dropOldest } from '@tpulab/platform/bounded.js';

interface EndProcessOptions {
  /** From the request to SIGKILL. */
  readonly waitMs: number;
  readonly restart: boolean;
  /** A cell is running, so the kernel would not read the request before it ends. */
  readonly busy: boolean;
}

/**
 * Ends a kernel process in steps: request, SIGTERM, SIGKILL. The last step always follows: a kernel in which jax.distributed
 * was initialised ignores SIGTERM and would otherwise keep its devices forever.
 *
 * Resolves when the process group has ended; rejects with `kernel_unkillable`. Does not close the life's sockets.
 */
export async function endProcess(
  life: KernelLife,
  { waitMs, restart, busy }: EndProcessOptions
): Promise<void> {
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

/** Counts consecutive crashes, to distinguish a kernel that crashed from a kernel that cannot run. */
export class CrashCount {
  #count = 0;

  /** `limit`: automatic restarts in a row. */
  constructor(private readonly limit: number) {}

  /** Called after a crash of a process that had been ready for this long. */
  mayRestart(readyForMs: number): boolean {
    this.#count = readyForMs >= STABLE_MS ? 1 : this.#count + 1;
    return this.#count <= this.limit;
  }

  /** A restart was requested: the count starts again. */
  clear(): void {
    this.#count = 0;
  }
}

/** A kernel that has answered a `shutdown_request` ends within this time, or continues. */
const SHUTDOWN_REPLY_MS = 30_000;

/**
 * A client may send the kernel itself a shutdown request. Its end is then not a crash, unless the kernel continued in between.
 */
export class RequestedEnd {
  #request: { readonly how: 'shutdown' | 'restart'; readonly msgId: string } | null = null;
  /** A later request on the same channel: an answer to it means that the kernel has ignored the shutdown request. */
  #later: { readonly channel: string; readonly msgId: string } | null = null;
  #channel = '';
  #answeredAt: number | null = null;

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
    else if (parent === this.#later?.msgId) this.clear();
  }

  clear(): void {
    this.#request = this.#later = this.#answeredAt = null;
  }

  /** How the process's end is classified, if it ends now. */
  endKind(now = performance.now()): 'shutdown' | 'restart' | null {
    const isOver = this.#answeredAt !== null && now - this.#answeredAt > SHUTDOWN_REPLY_MS;
    return isOver ? null : (this.#request?.how ?? null);
  }
}

/** Whether a client's `shutdown_request` requests a restart. */
function requestsRestart(message: KernelMessage): boolean {
  try {
    return contentOf(message)['restart'] === true;
  } catch {
    return false; // the kernel will not understand it either
  }
}

/** How many requests are stored; a client repeats one soon after a lost connection. */
const MAX_REMEMBERED = 10_000;

/** Ids of executions in the journal: a request that a client repeats after a lost connection does not run a second time. */
export class Executed {
  readonly #ids = new Set<string>();

  /** False: the id is already known. */
  add(msgId: string): boolean {
    if (this.#ids.has(msgId)) return false;
    this.#ids.add(msgId);
    dropOldest(this.#ids, MAX_REMEMBERED);
    return true;
  }
}
