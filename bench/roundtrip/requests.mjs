// @ts-check
/** The execute_request that every target is sent, and when it counts as answered. */
import { randomUUID } from 'node:crypto';

/** @typedef {{ msg_id: string, msg_type: string, session: string, username: string, date: string, version: string }} Header */

/**
 * @param {string} session
 * @param {string} msgType
 * @returns {Header}
 */
export function header(session, msgType) {
  return {
    msg_id: randomUUID(),
    msg_type: msgType,
    session,
    username: 'bench',
    date: new Date().toISOString(),
    version: '5.4'
  };
}

/** @param {string} code */
export function executeContent(code) {
  return {
    code,
    silent: false,
    store_history: true,
    user_expressions: {},
    allow_stdin: false,
    stop_on_error: true
  };
}

/**
 * Waits for the answers of one request at a time. A request is answered when both its reply and the idle status
 * have come: only then would a notebook show the cell as finished.
 */
export class PendingRequest {
  /** @type {{ msgId: string, reply: boolean, idle: boolean, resolve: (at: number) => void } | null} */
  #pending = null;

  /**
   * @param {string} msgId
   * @returns {Promise<number>} `performance.now()` at which the last of both was there
   */
  expect(msgId) {
    if (this.#pending) throw new Error('One request at a time.');
    return new Promise(resolve => {
      this.#pending = { msgId, reply: false, idle: false, resolve };
    });
  }

  /** Gives up on the request that is waiting, if there is one. */
  forget() {
    this.#pending = null;
  }

  /**
   * @param {string} channel
   * @param {{ msg_type: string }} messageHeader
   * @param {{ msg_id?: string }} parent
   * @param {{ execution_state?: string }} content
   */
  see(channel, messageHeader, parent, content) {
    const pending = this.#pending;
    if (!pending || parent.msg_id !== pending.msgId) return;
    if (channel === 'shell') pending.reply = true;
    if (messageHeader.msg_type === 'status' && content.execution_state === 'idle') pending.idle = true;
    if (pending.reply && pending.idle) {
      this.#pending = null;
      pending.resolve(performance.now());
    }
  }
}
