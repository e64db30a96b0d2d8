/**
 * Messages that the bridge itself creates. Requests carry a session of ours, so that the kernel's messages about them are
 * identified by their parent header. These go to no client, except the two that every client of a Jupyter server receives
 * on iopub: the kernel's idle status after its start, and the notice of its end. Messages for clients carry the kernel's
 * own session, because JupyterLab drops its queue when the session changes.
 */
import { randomUUID } from 'node:crypto';
import { type MessageHeader, newMessage } from '../jupyter/kernel-message.js';

/** Separates session and number of a message whose effects are shown. */
const EFFECT_SEPARATOR = '_shown_';

export interface OwnRequest {
  readonly msgId: string;
  readonly parts: readonly Buffer[];
}

export class OwnMessages {
  /** `session`: the same for all keepers of one kernel, so that a late answer to another keeper is recognised too. */
  constructor(private readonly session: string) {}

  /** The session for messages to clients; `kernelSession` is null for a kernel that never sent a message. */
  sessionFor(kernelSession: string | null): string {
    return kernelSession ?? this.session;
  }

  request(msgType: string, content: object = {}): OwnRequest {
    return this.#request(`${this.session}_${randomUUID()}`, msgType, content);
  }

  /** The kernel's iopub messages about this request are for clients, even when another keeper receives them. */
  shownRequest(msgType: string, content: object = {}): OwnRequest {
    return this.#request(`${this.session}${EFFECT_SEPARATOR}${randomUUID()}`, msgType, content);
  }

  isShown(parent: MessageHeader | null): boolean {
    return parent?.msg_id.startsWith(`${this.session}${EFFECT_SEPARATOR}`) === true;
  }

  #request(msgId: string, msgType: string, content: object): OwnRequest {
    return { msgId, parts: newMessage({ msgId, msgType, session: this.session, content }) };
  }

  isOwn(parent: MessageHeader | null): boolean {
    return parent?.session === this.session;
  }

  status(executionState: string, kernelSession: string | null): readonly Buffer[] {
    const session = this.sessionFor(kernelSession);
    return newMessage({ msgType: 'status', session, content: { execution_state: executionState } });
  }
}
