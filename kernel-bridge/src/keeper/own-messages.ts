/**
 * Messages that the bridge itself makes. Requests carry a session of ours, so that whatever a kernel says about them is
 * known to be ours by its parent header and goes to no client, except what every client of a Jupyter server hears on iopub:
 * that the kernel is idle when it has started, and that it ends. Messages for clients carry the kernel's own session, because
 * JupyterLab drops what it has queued when the session changes.
 */
import { randomUUID } from 'node:crypto';
import { type MessageHeader, newMessage } from '../jupyter/kernel-message.js';

/** Between session and number of a message whose effects are shown. */
const SHOWN = '_shown_';

export interface OwnRequest {
  readonly msgId: string;
  readonly parts: readonly Buffer[];
}

export class OwnMessages {
  /** `session`: the same for all keepers of one kernel, so that a late answer to another one is known to be ours too. */
  constructor(private readonly session: string) {}

  /** In messages for clients; `kernelSession` is null for a kernel that never said anything. */
  sessionFor(kernelSession: string | null): string {
    return kernelSession ?? this.session;
  }

  request(msgType: string, content: object = {}): OwnRequest {
    return this.#request(`${this.session}_${randomUUID()}`, msgType, content);
  }

  /** What the kernel says about it on iopub is for clients, also when another keeper hears it. */
  shownRequest(msgType: string, content: object = {}): OwnRequest {
    return this.#request(`${this.session}${SHOWN}${randomUUID()}`, msgType, content);
  }

  isShown(parent: MessageHeader | null): boolean {
    return parent?.msg_id.startsWith(`${this.session}${SHOWN}`) === true;
  }

  #request(msgId: string, msgType: string, content: object): OwnRequest {
    return { msgId, parts: newMessage({ msgId, msgType, session: this.session, content }) };
  }

  isOwn(parent: MessageHeader | null): boolean {
    return parent?.session === this.session;
  }

  /** A status for clients. */
  status(executionState: string, kernelSession: string | null): readonly Buffer[] {
    const session = this.sessionFor(kernelSession);
    return newMessage({ msgType: 'status', session, content: { execution_state: executionState } });
  }
}
