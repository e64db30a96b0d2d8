/** Requests that the gateway itself makes of a kernel, for its clients. Nobody but the gateway and the journal gets the answers. */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { BridgeError } from '../http/errors.js';
import type { Kernel } from '../kernels/kernel.js';
import { encodeV1 } from '../jupyter/index.js';
import { newMessage } from '../jupyter/new-message.js';

export class OwnRequests {
  readonly #kernel: Kernel;
  readonly #log: Logger;
  /** `header.session` of these requests. */
  readonly session = randomUUID();

  constructor(kernel: Kernel, log: Logger) {
    this.#kernel = kernel;
    this.#log = log;
  }

  /** Gives the `msg_id` of the request. */
  createSubshell(): string {
    return this.#send('create_subshell_request', {});
  }

  deleteSubshell(id: string): void {
    this.#log.info({ kernelId: this.#kernel.id }, 'a subshell is deleted: its client has not come back');
    this.#send('delete_subshell_request', { subshell_id: id });
  }

  /** The kernel goes on from where it was stopped. */
  disconnectDebugger(): void {
    this.#log.info(
      { kernelId: this.#kernel.id },
      'the debugger is disconnected: its client has not come back'
    );
    this.#send('debug_request', {
      type: 'request',
      seq: 1,
      command: 'disconnect',
      arguments: { restart: false, terminateDebuggee: false }
    });
  }

  #send(msgType: string, content: object): string {
    const msgId = randomUUID();
    const parts = newMessage({ msgId, msgType, session: this.session, content });
    try {
      this.#kernel.send(msgId, encodeV1({ channel: 'control', parts }));
    } catch (error) {
      // Without a kernel there is nothing to give back.
      if (!(error instanceof BridgeError)) throw error;
      this.#log.debug({ kernelId: this.#kernel.id, err: error }, 'a request of the server was not sent');
    }
    return msgId;
  }
}
