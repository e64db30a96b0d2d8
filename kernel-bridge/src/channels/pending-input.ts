/**
 * The question that a kernel waits for on stdin. It belongs to the client that runs the cell: while that client is attached,
 * nobody else answers. When it is away the question stays in the journal and is delivered when it comes back; anybody who has
 * taken its place may then answer too.
 */
import type { WatchedMessage } from './message-watch.js';
import type { ClientRequest, Refusal } from './refusal.js';

export class PendingInput {
  /** `header.session` of the client that was asked. Null: nothing is asked, or was before this gateway began. */
  #owner: string | null = null;

  watched({ channel, fromClient, header, parent }: WatchedMessage): void {
    if (channel !== 'stdin') return;
    if (!fromClient && header.msg_type === 'input_request') this.#owner = parent?.session ?? null;
    else if (fromClient && header.msg_type === 'input_reply') this.#owner = null;
  }

  /** The kernel was restarted. */
  forget(): void {
    this.#owner = null;
  }

  refuse(
    { message, header }: ClientRequest,
    owns: (session: string) => boolean,
    isAttached: (session: string) => boolean
  ): Refusal | null {
    const owner = this.#owner;
    if (message.channel !== 'stdin' || header.msg_type !== 'input_reply' || owner === null) return null;
    if (owns(owner) || !isAttached(owner)) return null;
    return {
      code: 'input_taken',
      message: 'Another connected client was asked this question; answer it there.'
    };
  }
}
