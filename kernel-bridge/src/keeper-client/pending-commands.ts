/** Commands that wait for their reply. Every wait ends: with the reply, the deadline, or the end of the connection. */
import type { CommandReplies, Reply } from '../keeper-protocol/messages.js';
import { KeeperError, type KeeperErrorCode } from '../keeper-protocol/keeper-error.js';

interface Pending {
  readonly resolve: (value: object) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

export class PendingCommands {
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #ended: Error | null = null;

  /** `send` gets the id under which the reply will come. */
  ask<Op extends keyof CommandReplies>(
    op: Op,
    timeoutMs: number,
    send: (id: number) => void
  ): Promise<CommandReplies[Op]> {
    if (this.#ended !== null) {
      return Promise.reject(this.#ended);
    }
    const id = ++this.#lastId;
    return new Promise<object>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#pending.delete(id);
        reject(
          new KeeperError(
            'keeper_timeout',
            `The keeper did not answer "${op}" within ${timeoutMs} ms; see its keeper.log.`
          )
        );
      }, timeoutMs);
      this.#pending.set(id, { resolve, reject, timer });
      send(id);
    }) as Promise<CommandReplies[Op]>;
  }

  settle(reply: Reply): void {
    const pending = this.#pending.get(reply.id);
    if (pending === undefined) {
      return; // too late: its deadline has passed
    }
    this.#pending.delete(reply.id);
    clearTimeout(pending.timer);
    if (reply.ok) {
      pending.resolve(reply.value);
    } else {
      pending.reject(new KeeperError(reply.code as KeeperErrorCode, reply.message));
    }
  }

  end(error: Error): void {
    this.#ended = error;
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(error);
    }
    this.#pending.clear();
  }
}
