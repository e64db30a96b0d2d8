/** Follows which subshells exist and whose they are, by what clients ask on control and the kernel answers. */
import type { ClientLeases } from './client-leases.js';
import type { WatchedMessage } from './message-watch.js';

/** Requests to delete that have not been answered; more than a few means that the kernel does not answer. */
const MAX_PENDING = 1_000;

export class SubshellWatch {
  readonly #leases: ClientLeases;
  /** `msg_id` of a `delete_subshell_request` to the subshell it names: the answer does not. */
  readonly #deleting = new Map<string, string>();

  constructor(leases: ClientLeases) {
    this.#leases = leases;
  }

  watched({ channel, fromClient, header, parent, content }: WatchedMessage): void {
    if (channel !== 'control') return;
    const id = content['subshell_id'];
    if (fromClient) {
      if (header.msg_type === 'delete_subshell_request' && typeof id === 'string')
        this.#asked(header.msg_id, id);
    } else if (parent && content['status'] === 'ok') {
      if (header.msg_type === 'create_subshell_reply' && typeof id === 'string') {
        this.#leases.subshellCreated(parent.session, id);
      } else if (header.msg_type === 'delete_subshell_reply') {
        const deleted = this.#deleting.get(parent.msg_id);
        if (deleted !== undefined) this.#leases.subshellDeleted(deleted);
      }
    }
    if (!fromClient && parent) this.#deleting.delete(parent.msg_id);
  }

  #asked(msgId: string, subshellId: string): void {
    this.#deleting.set(msgId, subshellId);
    const [oldest] = this.#deleting.keys();
    if (this.#deleting.size > MAX_PENDING && oldest !== undefined) this.#deleting.delete(oldest);
  }
}
