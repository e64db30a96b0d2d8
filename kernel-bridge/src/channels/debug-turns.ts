/**
 * One client debugs at a time. A debugger has one list of breakpoints and one stopped thread, so that two clients that
 * step through the same kernel would undo each other's work; the second one is told, in its own protocol.
 */
import type { ClientLeases } from './client-leases.js';
import type { WatchedMessage } from './message-watch.js';
import { type ClientRequest, debugCommand, type Refusal } from './refusal.js';

/** Questions that change nothing for the client that debugs. JupyterLab asks some of them of any kernel. */
const OPEN_TO_ALL: ReadonlySet<string> = new Set([
  'debugInfo',
  'inspectVariables',
  'richInspectVariables',
  'modules',
  'source'
]);

const BEGINS: ReadonlySet<string> = new Set(['initialize', 'attach']);

export class DebugTurns {
  readonly #leases: ClientLeases;

  constructor(leases: ClientLeases) {
    this.#leases = leases;
  }

  /** `owns`: whether a session is one that the asking client speaks for. */
  refuse({ message, header }: ClientRequest, owns: (session: string) => boolean): Refusal | null {
    if (header.msg_type !== 'debug_request') return null;
    const { command } = debugCommand(message);
    if (OPEN_TO_ALL.has(command)) return null;
    const holder = this.#leases.debugger;
    if (holder === null) {
      if (BEGINS.has(command)) this.#leases.debugger = header.session;
      return null;
    }
    if (owns(holder)) return null;
    return {
      code: 'debugger_taken',
      message:
        'Another client is debugging this kernel. Stop the debugger there, or close that page and try again in a minute.'
    };
  }

  /** An answer of the kernel. */
  watched({ fromClient, header, parent, content }: WatchedMessage): void {
    if (fromClient || header.msg_type !== 'debug_reply') return;
    if (this.#leases.debugger === null || parent?.session !== this.#leases.debugger) return;
    const { command, success } = content;
    // An empty answer is ipykernel's way of saying that it has no debugger.
    const failedToBegin = (command === 'initialize' && success === false) || command === undefined;
    if (command === 'disconnect' || failedToBegin) this.#leases.debugger = null;
  }
}
