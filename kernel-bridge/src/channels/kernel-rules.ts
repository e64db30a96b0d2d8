/**
 * The rules of one kernel beyond forwarding messages: who debugs, who owns the subshells, who answers stdin, which requests
 * run beside a running cell, and how much may wait while the kernel starts. They inspect messages and decide which requests
 * are refused.
 */
import type { JournalRecord } from '../journal/record.js';
import type { KernelSnapshot } from '../keeper-protocol/contract.js';
import { ClientLeases, type LeaseActions, type LeaseTimes } from './client-leases.js';
import { type QueueLimits, StartQueue } from './start-queue.js';
import { watchedMessage, type WatchedMessage } from './message-watch.js';
import { type ClientRequest, debugCommand, type Refusal } from './refusal.js';
import { type StateRequestActions, StateRequests } from './state-requests.js';
import { dropOldest } from '@tpulab/platform/bounded.js';

interface KernelRulesOptions {
  readonly leasesFile: string;
  readonly leaseTimes: LeaseTimes;
  readonly queueLimits: QueueLimits;
  readonly actions: LeaseActions;
  readonly state: StateRequestActions;
  snapshot(): KernelSnapshot;
}

export class KernelRules implements Disposable {
  readonly #leases: ClientLeases;
  readonly #debug: DebugTurns;
  readonly #subshells: SubshellWatch;
  readonly #input = new PendingInput();
  readonly #startQueue: StartQueue;
  readonly #state: StateRequests;

  constructor(private readonly options: KernelRulesOptions) {
    this.#leases = new ClientLeases(options.leasesFile, options.leaseTimes, options.actions);
    this.#debug = new DebugTurns(this.#leases);
    this.#subshells = new SubshellWatch(this.#leases);
    this.#startQueue = new StartQueue(options.queueLimits);
    this.#state = new StateRequests(options.state);
    this.kernelChanged();
    this.#leases.clientsChanged();
  }

  /** A record of the journal, in order. */
  passed(record: JournalRecord): void {
    this.#state.passed(record);
    const message = watchedMessage(record);
    if (!message) return;
    this.#debug.watched(message);
    this.#subshells.watched(message);
    this.#input.watched(message);
    this.#state.watched(message);
  }

  /** Whether an accepted request goes to the kernel beside the running cell instead of directly. */
  detour(request: ClientRequest): boolean {
    return this.#state.take(request);
  }

  /** Why a client's request does not go to the kernel; null when it does. `owns`: the sessions that the client represents. */
  refuse(request: ClientRequest, owns: (session: string) => boolean): Refusal | null {
    const isAttached = (session: string): boolean => this.options.actions.isAttached(session);
    const refusal = this.#debug.refuse(request, owns) ?? this.#input.refuse(request, owns, isAttached);
    if (refusal) return refusal;
    if (this.#startQueue.take(request.bytes, this.#isStarting)) return null;
    return {
      code: 'requests_held',
      message:
        'Too many requests are waiting for this kernel, which is still starting. Send this one again when the kernel is idle, or restart the kernel.'
    };
  }

  clientsChanged(): void {
    this.#leases.clientsChanged();
  }

  kernelChanged(): void {
    const { kernelSession } = this.options.snapshot();
    if (kernelSession !== null && this.#leases.kernelIs(kernelSession)) {
      this.#input.forget();
      this.#state.restarted();
    }
    if (!this.#isStarting) this.#startQueue.release();
  }

  [Symbol.dispose](): void {
    this.#leases[Symbol.dispose]();
    this.#state[Symbol.dispose]();
  }

  get #isStarting(): boolean {
    const { executionState } = this.options.snapshot();
    return executionState === 'starting' || executionState === 'restarting';
  }
}

/** Requests that do not affect the debugging client. JupyterLab sends some of them to any kernel. */
const OPEN_TO_ALL: ReadonlySet<string> = new Set([
  'debugInfo',
  'inspectVariables',
  'richInspectVariables',
  'modules',
  'source'
]);

const DEBUG_START_COMMANDS: ReadonlySet<string> = new Set(['initialize', 'attach']);

/**
 * Allows one client to debug at a time. A debugger has one list of breakpoints and one stopped thread, so two clients
 * stepping through the same kernel would interfere; the second one is refused, in the debugger's own protocol.
 */
class DebugTurns {
  constructor(private readonly leases: ClientLeases) {}

  /** `owns`: whether the requesting client represents a session. */
  refuse({ message, header }: ClientRequest, owns: (session: string) => boolean): Refusal | null {
    if (header.msg_type !== 'debug_request') return null;
    const { command } = debugCommand(message);
    if (OPEN_TO_ALL.has(command)) return null;
    const holder = this.leases.debugger;
    if (holder === null) {
      if (DEBUG_START_COMMANDS.has(command)) this.leases.debugger = header.session;
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
    if (this.leases.debugger === null || parent?.session !== this.leases.debugger) return;
    const { command, success } = content;
    // ipykernel answers with empty content when it has no debugger.
    const failedToBegin = (command === 'initialize' && success === false) || command === undefined;
    if (command === 'disconnect' || failedToBegin) this.leases.debugger = null;
  }
}

/**
 * The stdin question that a kernel waits for. It belongs to the client that runs the cell: while that client is attached,
 * no other client answers. While it is disconnected, the question stays in the journal and is delivered on its return; a
 * client that has replaced it may then answer too.
 */
export class PendingInput {
  /** `header.session` of the client that must answer. Null: there is no question, or it came before this gateway started. */
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

/** Limit of delete requests without a reply; more than a few means that the kernel does not answer. */
const MAX_PENDING = 1_000;

/** Tracks which subshells exist and who owns them, from requests on control and the kernel's replies. */
class SubshellWatch {
  /** `msg_id` of a `delete_subshell_request` to the subshell that it names; the reply does not name it. */
  readonly #deleting = new Map<string, string>();

  constructor(private readonly leases: ClientLeases) {}

  watched({ channel, fromClient, header, parent, content }: WatchedMessage): void {
    if (channel !== 'control') return;
    const id = content['subshell_id'];
    if (fromClient) {
      if (header.msg_type === 'delete_subshell_request' && typeof id === 'string')
        this.#deletionRequested(header.msg_id, id);
    } else if (parent && content['status'] === 'ok') {
      if (header.msg_type === 'create_subshell_reply' && typeof id === 'string') {
        this.leases.subshellCreated(parent.session, id);
      } else if (header.msg_type === 'delete_subshell_reply') {
        const deleted = this.#deleting.get(parent.msg_id);
        if (deleted !== undefined) this.leases.subshellDeleted(deleted);
      }
    }
    if (!fromClient && parent) this.#deleting.delete(parent.msg_id);
  }

  #deletionRequested(msgId: string, subshellId: string): void {
    this.#deleting.set(msgId, subshellId);
    dropOldest(this.#deleting, MAX_PENDING);
  }
}
