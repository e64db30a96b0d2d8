/** The clients of one kernel: tracks who is attached, and forwards the records that the keeper pushes. */
import type { ClientEvent } from '@tpulab/protocol';
import path from 'node:path';
import type { Duplex } from 'node:stream';
import { NUMBERED_SUBPROTOCOL } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { JournalReader, type JournalRecord, POSITIONS_FILE, PositionStore } from '../journal/index.js';
import type { Kernel } from '../kernels/kernel.js';
import { ClientConnection, type ClientOptions } from './client-connection.js';
import type { FeedLimits, FeedState } from './client-feed.js';
import { CLOSE, type CloseCode } from '../http/upgrades.js';
import type { ConfirmationOptions } from './confirmations.js';
import type { GatheringWebSocket } from '../http/gathering-websocket.js';
import { LiveBound } from './live-bound.js';
import { attachStatus, busyRequestOf, deadStatus } from './made-messages.js';
import type { QueueLimits } from './start-queue.js';
import type { LeaseTimes } from './client-leases.js';
import { guarded } from '@tpulab/platform/guard.js';
import { KernelRules } from './kernel-rules.js';
import { isWatched } from './message-watch.js';
import { isForClients, OutgoingMessage } from './outgoing-message.js';
import { kernelInfoFor, readerRefusals, type ReaderView, steeringRefusal } from './reader-rules.js';
import type { ClientRequest } from './refusal.js';
import { type LastMessages, type ResumePoint, resumePoint } from './resume-point.js';
import type { UnsentBudget } from './unsent-budget.js';
import { randomUUID } from 'node:crypto';
import { BridgeError } from '@tpulab/platform/errors.js';
import { encodeV1 } from '../jupyter/index.js';
import { newMessage } from '../jupyter/kernel-message.js';
import { setNewest } from '@tpulab/platform/bounded.js';

/** A kernel that is slow to resend must not block its clients. */
const SETTLING_MS = 30_000;

/** Beside the journal: the leases of clients in the kernel. */
export const LEASES_FILE = 'leases.json';

const POSITIONS_AT_RISK =
  'Client positions cannot be saved: after a server restart, clients may receive output twice.';
const LEASES_AT_RISK =
  'Subshell leases cannot be saved: after a server restart, unused subshells may stay until the kernel ends.';

const LEASES_LOST = 'leases.json cannot be read; the subshells it named stay until the kernel ends';

/** A change of one client, for `/bridge/v1/events`. */
export type ClientChange = Omit<ClientEvent, 'topic'>;

interface KernelChannelsOptions {
  readonly kernel: Kernel;
  readonly confirmation: ConfirmationOptions;
  readonly limits: FeedLimits;
  readonly leaseTimes: LeaseTimes;
  readonly queueLimits: QueueLimits;
  readonly unsent: UnsentBudget;
  readonly log: Logger;
  clientChanged(change: ClientChange): void;
}

export interface AttachRequest {
  readonly socket: GatheringWebSocket;
  readonly stream: Duplex;
  readonly sessionId: string | null;
  /** Sessions that this client replaces, from a page before it was reloaded. */
  readonly predecessors: readonly string[];
  /** The last record that the client claims to have. */
  readonly resume: number | null;
  /** The last message that the client has on each channel. */
  readonly last: LastMessages;
  /** True for a page: its outputs come at a rate that it can show. */
  readonly isBounded: boolean;
  /** What a read-only client may see; null: the client is not read-only and sees everything. */
  readonly view: ReaderView | null;
  /** Whether it may interrupt and shut down the kernel. */
  readonly maySteer: () => boolean;
}

/** Limit of sessions whose counts of long outputs are kept while they have no socket. */
const MAX_BOUNDS = 32;

export class KernelChannels {
  readonly #clients = new Set<ClientConnection>();
  readonly #bySession = new Map<string, ClientConnection>();
  readonly #positions: PositionStore;
  readonly #journal: JournalReader;
  readonly #listening: Disposable;
  readonly #rules: KernelRules;
  /** By session, the most recently attached last. */
  readonly #bounds = new Map<string, LiveBound>();
  #reportedUnreachable = false;
  #isClosing = false;

  constructor(private readonly options: KernelChannelsOptions) {
    const { kernel } = options;
    this.#positions = new PositionStore(path.join(kernel.directory, POSITIONS_FILE), error =>
      kernel.unsaved(POSITIONS_AT_RISK, error)
    );
    this.#journal = new JournalReader(kernel.journalDir);
    const own = new OwnRequests(kernel, options.log);
    this.#rules = new KernelRules({
      leasesFile: path.join(kernel.directory, LEASES_FILE),
      leaseTimes: options.leaseTimes,
      queueLimits: options.queueLimits,
      snapshot: () => kernel.snapshot,
      actions: {
        // The gateway's own subshell serves all clients. A reader answers no stdin question and uses no debugger, whichever
        // session it names.
        isAttached: session =>
          [...this.#clients].some(
            client => !client.isReader && (session === own.session || client.owns(session))
          ),
        deleteSubshell: id => own.deleteSubshell(id),
        disconnectDebugger: () => own.disconnectDebugger(),
        onWriteFault: error => kernel.unsaved(LEASES_AT_RISK, error),
        onUnreadable: error => options.log.warn({ kernelId: kernel.id, err: error }, LEASES_LOST)
      },
      state: {
        isBusy: () => kernel.snapshot.executionState === 'busy',
        createSubshell: () => own.createSubshell(),
        send: (msgId, frame) => void kernel.send(msgId, frame),
        answered: () => void this.#sendBusy(),
        failed: error =>
          options.log.warn({ kernelId: kernel.id, err: error }, 'requests that were held back are dropped')
      }
    });
    this.#listening = kernel.listen({
      record: record => {
        this.#rules.passed(record);
        if (this.#clients.size === 0) return;
        const message = new OutgoingMessage(record);
        this.#each(client => client.feed.live(message));
      },
      wantsPayload: channel =>
        isWatched(channel) ||
        (isForClients(channel) && [...this.#clients].some(client => client.feed.isWaiting)),
      changed: () => this.#kernelChanged(),
      removed: () => this.close(CLOSE.kernelRemoved)
    });
  }

  /** The attached clients that have a session id. */
  clients(): ClientChange[] {
    return [...this.#bySession].map(([sessionId, client]) =>
      this.#describe(sessionId, client, client.feed.state)
    );
  }

  attach({ socket, stream, resume, last, view, maySteer, ...requested }: AttachRequest): void {
    const { kernel, confirmation, limits, log, unsent } = this.options;
    // A reader sees other clients' session ids in their messages. It must neither replace such a client nor get its
    // replies.
    const isReader = view !== null;
    const sessionId = isReader ? null : requested.sessionId;
    const predecessors = isReader ? [] : requested.predecessors;
    const stale = sessionId === null ? undefined : this.#bySession.get(sessionId);
    if (stale) {
      this.#forget(stale);
      stale.close(CLOSE.replaced);
    }
    const isNew = sessionId === null || this.#positions.get(sessionId) === undefined;
    const requestsFrom = this.#startOf(sessionId, resume, socket.protocol === NUMBERED_SUBPROTOCOL);
    const position = Math.max(requestsFrom, Math.min(view?.from ?? 0, kernel.lastSeq));
    const refuse = isReader ? readerRefusals() : this.#refusalsOf(maySteer);
    const client: ClientConnection = new ClientConnection({
      socket,
      stream,
      kernel,
      sessionId,
      predecessors,
      view,
      position,
      findStart: isReader ? null : this.#finderOf(resume, last),
      confirmation,
      limits,
      bound:
        requested.isBounded && socket.protocol === NUMBERED_SUBPROTOCOL ? this.#boundOf(sessionId) : null,
      log: log.child({ kernelId: kernel.id, clientId: sessionId }),
      read: fromSeq => this.#journal.readAcross(fromSeq, { newest: () => kernel.lastSeq }),
      isClaimed: session => this.#bySession.has(session),
      refuse,
      detour: request => (isReader ? this.#answerReader(client, request) : this.#rules.detour(request)),
      confirmed: (confirming, seq) => {
        if (sessionId === null) return;
        // A replaced socket may still confirm something, but its successor's position counts.
        const current = this.#bySession.get(sessionId) ?? confirming;
        if (current === confirming) this.#positions.set(sessionId, seq);
      },
      congested: () => unsent.check(),
      detached: leaving => this.#forget(leaving),
      stateChanged: (changed, state) => this.#clientChanged(changed, state)
    });
    // Stored immediately: a client that is cut off before its first pong must not resume at the live position.
    if (sessionId !== null) {
      if (isNew || resume !== null) this.#positions.set(sessionId, position);
      this.#bySession.set(sessionId, client);
    }
    this.#clients.add(client);
    unsent.add(client);
    void client.start();
    kernel.connections = this.#connections;
    this.#rules.clientsChanged();
  }

  #refusalsOf(maySteer: () => boolean): ClientOptions['refuse'] {
    return (request, owns) =>
      (maySteer() ? null : steeringRefusal(request)) ?? this.#rules.refuse(request, owns);
  }

  #answerReader(client: ClientConnection, request: ClientRequest): true {
    const { kernel, log } = this.options;
    void kernelInfoFor(kernel, request)
      .then(frames => frames?.forEach(frame => client.sendMade(frame)))
      .catch((error: unknown) =>
        log.warn({ kernelId: kernel.id, err: error }, 'a reader was not told its kernel')
      );
    return true;
  }

  close(code: CloseCode): void {
    this.#isClosing = true;
    this.#listening[Symbol.dispose]();
    this.#rules[Symbol.dispose]();
    for (const client of [...this.#clients]) client.close(code);
    // Positions that clients confirm by answering the close frame are still stored.
    if (this.#clients.size === 0) this.#positions.close();
  }

  #boundOf(sessionId: string | null): LiveBound {
    const cached = sessionId === null ? undefined : this.#bounds.get(sessionId);
    const bound = cached ?? new LiveBound(this.options.kernel.id);
    if (sessionId === null) return bound;
    setNewest(this.#bounds, sessionId, bound, MAX_BOUNDS);
    return bound;
  }

  /** A position past the journal's end (from another journal, for example) would block the client's output for long. */
  #startOf(sessionId: string | null, resume: number | null, acknowledges: boolean): number {
    const newest = this.options.kernel.lastSeq;
    const stored = sessionId === null ? undefined : this.#positions.get(sessionId);
    if (resume === null && stored !== undefined && !acknowledges) {
      return Math.max(0, Math.min(stored, newest) - this.options.confirmation.backStep);
    }
    return Math.min(resume ?? stored ?? newest, newest);
  }

  /** Null where the number is enough to find the position. */
  #finderOf(resume: number | null, last: LastMessages): (() => Promise<ResumePoint>) | null {
    const { kernel } = this.options;
    const { renumberedFrom } = kernel.snapshot;
    if (resume === null || last.size === 0 || renumberedFrom === undefined || resume < renumberedFrom)
      return null;
    return async () => {
      await kernel.settled(SETTLING_MS);
      const newest = kernel.lastSeq;
      const read = (from: number): AsyncIterable<readonly JournalRecord[]> =>
        this.#journal.readAcross(from, { to: newest });
      return resumePoint(resume, last, { renumberedFrom, newest, read });
    };
  }

  #forget(client: ClientConnection): void {
    if (!this.#clients.delete(client)) return;
    this.options.unsent.remove(client);
    const { sessionId } = client;
    if (sessionId !== null && this.#bySession.get(sessionId) === client) this.#bySession.delete(sessionId);
    if (this.#isClosing) {
      if (this.#clients.size === 0) this.#positions.close();
      return;
    }
    if (!this.options.kernel.isRemoved) this.options.kernel.connections = this.#connections;
    this.#rules.clientsChanged();
  }

  /**
   * Clients take the newest status for the kernel's state; if that status belongs to another request than the running cell,
   * this sends them the actual state.
   */
  async #sendBusy(): Promise<void> {
    const { kernel, log } = this.options;
    try {
      const snapshot = await kernel.currentSnapshot();
      const status = snapshot?.executionState === 'busy' ? attachStatus(snapshot) : null;
      const id = busyRequestOf(snapshot);
      if (status) this.#each(client => client.sees(id) && client.sendMade(status));
    } catch (error) {
      log.warn({ kernelId: kernel.id, err: error }, 'the state of the kernel is not known');
    }
  }

  /** A kernel whose only clients are readers counts as unused. */
  get #connections(): number {
    return [...this.#clients].filter(({ isReader }) => !isReader).length;
  }

  #kernelChanged(): void {
    const { kernel } = this.options;
    this.#rules.kernelChanged();
    if (kernel.isUnreachable && !this.#reportedUnreachable) {
      const frame = deadStatus(kernel.snapshot);
      if (frame) this.#each(client => client.sendMade(frame));
    }
    this.#reportedUnreachable = kernel.isUnreachable;
    this.#each(client => client.wake());
  }

  /** A failure for one client ends that client only; the others continue. */
  #each(act: (client: ClientConnection) => void): void {
    for (const client of [...this.#clients]) guarded(error => client.fail(error), act)(client);
  }

  #clientChanged(client: ClientConnection, state: FeedState): void {
    if (client.sessionId === null) return;
    this.options.clientChanged(this.#describe(client.sessionId, client, state));
  }

  #describe(sessionId: string, client: ClientConnection, state: FeedState): ClientChange {
    return { kernelId: this.options.kernel.id, sessionId, state, pending: client.pending };
  }
}

/** Requests that the gateway itself sends to a kernel, for its clients. Only the gateway and the journal get the replies. */
class OwnRequests {
  /** `header.session` of these requests. */
  readonly session = randomUUID();

  constructor(
    private readonly kernel: Kernel,
    private readonly log: Logger
  ) {}

  /** Returns the `msg_id` of the request. */
  createSubshell(): string {
    return this.#send('create_subshell_request', {});
  }

  deleteSubshell(id: string): void {
    this.log.info({ kernelId: this.kernel.id }, 'a subshell is deleted: its client has not come back');
    this.#send('delete_subshell_request', { subshell_id: id });
  }

  /** The kernel continues from where it was stopped. */
  disconnectDebugger(): void {
    this.log.info({ kernelId: this.kernel.id }, 'the debugger is disconnected: its client has not come back');
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
      this.kernel.send(msgId, encodeV1({ channel: 'control', parts }));
    } catch (error) {
      // Without a kernel there is nothing to release.
      if (!(error instanceof BridgeError)) throw error;
      this.log.debug({ kernelId: this.kernel.id, err: error }, 'a request of the server was not sent');
    }
    return msgId;
  }
}
