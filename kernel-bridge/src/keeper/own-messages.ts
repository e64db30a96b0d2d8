/**
 * Messages that the bridge itself makes. Requests carry a session of ours, so that whatever a kernel says about them is
 * known to be ours by its parent header and goes to no client. Messages for clients carry the kernel's own session, because
 * JupyterLab drops what it has queued when the session changes.
 */
import { randomUUID } from 'node:crypto';
import type { MessageHeader } from '../wire/kernel-message.js';

const PROTOCOL = '5.4';
const EMPTY = Buffer.from('{}');

export interface OwnRequest {
  readonly msgId: string;
  readonly parts: readonly Buffer[];
}

export class OwnMessages {
  readonly #session: string;

  /** `session`: the same for all keepers of one kernel, so that a late answer to another one is known to be ours too. */
  constructor(session: string) {
    this.#session = session;
  }

  request(msgType: string, content: object = {}): OwnRequest {
    const msgId = `${this.#session}_${randomUUID()}`;
    return {
      msgId,
      parts: [header(msgId, msgType, this.#session), EMPTY, EMPTY, Buffer.from(JSON.stringify(content))]
    };
  }

  isOwn(parent: MessageHeader | null): boolean {
    return parent?.session === this.#session;
  }

  /** A status for clients. `kernelSession` is null for a kernel that never said anything. */
  status(executionState: string, kernelSession: string | null, parent: Buffer = EMPTY): readonly Buffer[] {
    const session = kernelSession ?? this.#session;
    return [
      header(`${session}_${randomUUID()}`, 'status', session),
      parent,
      EMPTY,
      Buffer.from(JSON.stringify({ execution_state: executionState }))
    ];
  }

  /**
   * `status: restarting` for a restart that somebody asked for. Its parent is a `shutdown_request`, as with the kernel's own
   * statuses about one: JupyterLab takes a `restarting` without such a parent for a crash, and tells its user so.
   */
  restartStatus(kernelSession: string | null): readonly Buffer[] {
    const [parent] = this.request('shutdown_request', { restart: true }).parts;
    return this.status('restarting', kernelSession, parent);
  }
}

function header(msgId: string, msgType: string, session: string): Buffer {
  return Buffer.from(
    JSON.stringify({
      msg_id: msgId,
      msg_type: msgType,
      session,
      username: 'tpulab',
      date: new Date().toISOString(),
      version: PROTOCOL
    })
  );
}
