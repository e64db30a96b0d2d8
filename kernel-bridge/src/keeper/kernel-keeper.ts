/**
 * Owns one kernel: its lives, its journal and its state. Every request of a gateway is a method here; the sockets to
 * gateways and to the agent are elsewhere.
 */
import path from 'node:path';
import {
  type ChannelName,
  headerOf,
  type KernelMessage,
  type MessageHeader,
  PART,
  textOf
} from '../jupyter/kernel-message.js';
import { decodeV1 } from '../jupyter/v1-frame.js';
import { JournalReader } from '../journal/journal-reader.js';
import { JournalWriter } from '../journal/journal-writer.js';
import { POSITIONS_FILE, PositionStore } from '../journal/position-store.js';
import { Confirmer, readCheckpoint } from './checkpoint.js';
import {
  keeperSessionOf,
  removeKernelSockets,
  routingIdOf,
  shortConnection,
  type ShortConnection
} from './connection-file.js';
import type { KernelSnapshot } from '../keeper-protocol/contract.js';
import { FRAME_HEADER_BYTES } from '../keeper-protocol/frames.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import type { KeeperParts, Orphan } from './gateway-server.js';
import { fromClient, fromKernel, ownRecord, ownStatus, SecretInput, statusOf } from './journal-entries.js';
import {
  ABORTED,
  DroppedIdles,
  kernelEnded,
  lastExecutions,
  LostReplies,
  type OpenRequest,
  readJournalTail,
  type ReplacementReply,
  replacementMessages
} from './journal-tail.js';
import { KernelLife, RequestQueue } from './kernel-life.js';
import { describeExit, type KernelExit, KernelFolder, KernelProcess } from './kernel-process.js';
import { KernelState, RunningWait } from './kernel-state.js';
import { OwnMessages } from './own-messages.js';
import { ResendLink } from './resend-link.js';
import { RequestedEnd, CrashCount, endProcess, Executed } from './kernel-endings.js';
import type { TakeoverParts } from './takeover.js';
import { InTurn } from '@tpulab/platform/waiting.js';

/**
 * No user notices so short a delay, and only output of a flood is delayed; messages that begin or end an execution are
 * written immediately.
 */
const COALESCE_MS = 8;

const NOTHING_IN_FLIGHT = { channel: 'iopub', msgId: null } as const;

export class KernelKeeper {
  readonly #own: OwnMessages;
  readonly #secrets = new SecretInput();
  readonly #state = new KernelState(() => {
    this.parts.listener.changed();
    this.#wait.check();
  });
  readonly #wait = new RunningWait(this.#state);
  readonly #crashes: CrashCount;
  readonly #folder: KernelFolder;
  readonly #startedAt = Date.now();
  #journal!: JournalWriter;
  #life: KernelLife | null = null;
  #confirmer: Confirmer | null = null;
  readonly #requests = new RequestQueue();
  #lastActivity = Date.now();
  /** The kernel message that is being passed to the journal: a large one is written before that returns. */
  #inFlight: { readonly channel: ChannelName; readonly msgId: string | null } = NOTHING_IN_FLIGHT;
  #kernelInfo: string | null = null;
  /** See `KernelSnapshot`. */
  #renumberedFrom: number | null = null;
  #isSettled = false;
  /** After a takeover, until it is known whether replies are lost. */
  #lost: LostReplies | null = null;
  /** Cells that this process has, or will get, and has not answered. */
  readonly #open = new Map<string, OpenRequest>();
  /** Cells in `#open` whose idle status came before the reply. */
  readonly #idle = new Set<string>();
  readonly #droppedIdles = new DroppedIdles(
    async () => (await this.#life?.hasPassedIopub()) === true,
    request => this.#idleDropped(request)
  );
  /** A client has sent the kernel itself a shutdown request, so that its end is not a crash. */
  readonly #requestedEnd = new RequestedEnd();
  readonly #executed = new Executed();
  #stopping: Promise<void> | null = null;
  /** Restarts, crashes and the shutdown follow one another. */
  readonly #queue = new InTurn();

  private constructor(private readonly parts: KeeperParts) {
    this.#crashes = new CrashCount(parts.launch.restartLimit);
    this.#folder = new KernelFolder(parts.launch.cwd);
    this.#own = new OwnMessages(keeperSessionOf(parts.connection));
  }

  /** Rejects with `kernel_start_failed` when the program cannot be run. The kernel is still starting when this resolves. */
  static start(parts: KeeperParts): Promise<KernelKeeper> {
    return KernelKeeper.#make(parts, keeper => {
      if (keeper.#journal.lastSeq > 0) {
        // After a power loss, clients of the lost kernel may have received more than the journal still has: its numbers are
        // reused.
        keeper.#renumbersOn();
        keeper.#isSettled = true;
      }
      return keeper.#begin();
    });
  }

  /** Takes over a running kernel. Resolves before the kernel's first message: it may be too busy to send one. */
  static adopt(parts: KeeperParts, orphan: Orphan): Promise<KernelKeeper> {
    return KernelKeeper.#make(parts, keeper => keeper.#takeOver(orphan));
  }

  static async #make(
    parts: KeeperParts,
    begin: (keeper: KernelKeeper) => Promise<void>
  ): Promise<KernelKeeper> {
    const keeper = new KernelKeeper(parts);
    const { launch, listener, log, journalDir, kernelDir } = parts;
    const checkpoint = await readCheckpoint(kernelDir);
    keeper.#journal = await JournalWriter.open(journalDir, {
      headroom: FRAME_HEADER_BYTES,
      coalesceMs: COALESCE_MS,
      // The kernel has dropped the messages that were in the journal then, so they cannot get the same numbers again.
      highWaterMark: checkpoint?.seq ?? 0,
      onWritten: batch => {
        keeper.#confirmer?.written(batch.lastSeq, batch.end - batch.start);
        listener.written(batch);
      },
      onStored: record => {
        const { channel, msgId } = keeper.#inFlight;
        if (msgId !== null) keeper.#confirmer?.received(channel, msgId);
        keeper.#confirmer?.written(record.seq, record.bytes);
        listener.stored(record);
      },
      onFault: fault => {
        log[fault === null ? 'info' : 'error'](
          { err: fault ?? undefined },
          'the journal has changed its health'
        );
        listener.journalFault(fault);
      },
      onTrimmed: trim =>
        log.warn(trim, 'the oldest records were removed because the journal reached its quota'),
      ...(launch.journalBytes === undefined ? {} : { maxBytes: launch.journalBytes })
    });
    for (const cut of keeper.#journal.cuts) log.warn(cut, 'the journal was cut at a damaged record');
    for (const msgId of await lastExecutions(new JournalReader(journalDir), keeper.#journal.lastSeq)) {
      keeper.#executed.add(msgId);
    }
    keeper.#pullBackPositions();
    keeper.#renumberedFrom = checkpoint?.renumberedFrom ?? null;
    try {
      await begin(keeper);
    } catch (error) {
      await keeper.#journal.close();
      throw error;
    }
    return keeper;
  }

  /** The next record gets a number that another message may have had before. */
  #renumbersOn(): void {
    this.#renumberedFrom = Math.min(this.#renumberedFrom ?? Infinity, this.#journal.lastSeq + 1);
  }

  /** A client may have received more than the journal still has; messages that reuse those numbers are new to it. */
  #pullBackPositions(): void {
    const { kernelDir, log } = this.parts;
    const { lastSeq } = this.#journal;
    if (lastSeq === 0) return;
    const positions = new PositionStore(path.join(kernelDir, POSITIONS_FILE), error => {
      if (error !== null) log.error({ err: error, lastSeq }, 'positions of clients were not pulled back');
    });
    positions.pullBack(lastSeq);
    positions.close();
  }

  get snapshot(): KernelSnapshot {
    const { launch } = this.parts;
    return {
      kernelId: launch.kernelId,
      specName: launch.specName,
      executionState: this.#state.executionState,
      reason: this.#state.reason,
      ...(this.#state.lastEnd !== null && { lastEnd: this.#state.lastEnd }),
      lastActivity: this.#lastActivity,
      startedAt: this.#startedAt,
      keeperPid: process.pid,
      kernelPid: this.#life?.process.pid ?? null,
      kernelSession: this.#state.session,
      busyParent: this.#state.busyParent,
      lastSeq: this.#journal.lastSeq,
      ...(this.#renumberedFrom !== null && {
        renumberedFrom: this.#renumberedFrom,
        isSettled: this.#isSettled
      })
    };
  }

  get kernelInfo(): string | null {
    return this.#kernelInfo;
  }

  /** A v1 frame of a client: checked, journaled, sent. Throws `WireError`; dropped when there is no kernel to send it to. */
  send(frame: Buffer): void {
    const message = decodeV1(frame);
    const header = headerOf(message);
    if (message.channel === 'iopub' || this.#stopping !== null || this.#state.executionState === 'dead') {
      this.parts.log.warn(
        { channel: message.channel, state: this.#state.executionState },
        'a message cannot be sent'
      );
      return;
    }
    this.#lastActivity = Date.now();
    if (header.msg_type === 'execute_request' && !this.#executed.add(header.msg_id)) {
      this.parts.log.warn({ msgId: header.msg_id }, 'a client repeats an execution, which is ignored');
      return;
    }
    // The process that runs now: a restart requested next must not pass this message to its successor.
    const life = this.#life;
    const journaled = this.#secrets.withoutSecret(message, header) ?? frame;
    const send = (): void => {
      this.#requestedEnd.sent(message, header);
      if (life !== null && life !== this.#life) return;
      if (header.msg_type === 'execute_request') {
        this.#open.set(header.msg_id, { header, text: textOf(message, PART.header) });
      }
      this.#requests.add(message);
    };
    this.#journal.append(...fromClient(message.channel, journaled, send));
  }

  async interrupt(): Promise<void> {
    if (this.#life?.isReady !== true && (await this.#abortWaiting())) return;
    if (this.#life === null && this.#state.executionState === 'restarting') {
      throw new KeeperError('kernel_restarting', 'The kernel is being restarted, so nothing runs in it.');
    }
    if (this.#life === null) {
      throw new KeeperError(
        'kernel_dead',
        `The kernel is dead (${this.#state.reason ?? 'no reason known'}); restart it.`
      );
    }
    await this.#life.interrupt(this.parts.launch.interruptMode);
  }

  /** Waiting requests have not begun in the starting process, so no signal can end them. False: no request waits. */
  async #abortWaiting(): Promise<boolean> {
    // Messages sent before the interrupt pass through the journal; those that cannot be written were forwarded immediately.
    await this.#journal.sync().catch(() => undefined);
    const aborted = this.#requests.removeExecutions();
    for (const msgId of aborted) {
      const request = this.#open.get(msgId);
      if (request !== undefined) this.#answerFor(request, ABORTED);
    }
    return aborted.length > 0;
  }

  /** Resolves when the new process answers; rejects with `kernel_dead`, `kernel_start_timeout` or `kernel_start_failed`. */
  async restart(): Promise<KernelSnapshot> {
    await this.#inTurn(async () => {
      this.#crashes.clear();
      this.#requests.clear();
      this.#state.restarting('restart requested');
      this.#journal.append(...ownRecord({ type: 'restart', reason: 'restart requested' }));
      await this.#endLife(true);
      this.#leaveOpen('it was restarted');
      await this.#beginOrFail();
    });
    await this.#wait.running();
    return this.snapshot;
  }

  /** Ends the kernel, then the journal. Idempotent. */
  shutdown(): Promise<void> {
    this.#stopping ??= this.#queue.settled.then(async () => {
      try {
        await this.#endLife(false);
        this.#state.dead('shut down');
      } finally {
        this.#folder.close();
        await this.#journal.close();
        await removeKernelSockets(this.parts.connection);
      }
    });
    return this.#stopping;
  }

  async #begin(): Promise<void> {
    const { launch, files, connection, log } = this.parts;
    await removeKernelSockets(connection);
    const cwd = this.#folder.path();
    const short = await shortConnection(files.connectionFile, launch.argv);
    const connectionFile = short?.file ?? files.connectionFile;
    const starting = KernelProcess.start({ ...launch, cwd }, { ...files, connectionFile });
    if (short !== null) void removeAfter(starting, short).catch(() => undefined);
    const kernelProcess = await starting;
    log.info({ kernelPid: kernelProcess.pid }, 'the kernel process has started');
    this.#requestedEnd.clear();
    this.#lost = null;
    this.#live(kernelProcess, null);
  }

  async #takeOver({ pid, start }: Orphan): Promise<void> {
    const { connection, kernelDir, journalDir, log } = this.parts;
    const checkpoint = await readCheckpoint(kernelDir);
    const before =
      checkpoint?.kernelPid === pid ? checkpoint.state : { ready: false, session: null, busy: [] };
    const tail = await readJournalTail(new JournalReader(journalDir), (checkpoint?.seq ?? 0) + 1, before);
    this.#kernelInfo = checkpoint?.kernelInfo ?? null;
    this.#state.restore(tail.state);
    if (this.#journal.cuts.length > 0) this.#renumbersOn();
    const link =
      connection.resend_socket === undefined ? null : await ResendLink.connect(connection.resend_socket);
    log.info({ kernelPid: pid, canResend: link !== null, ready: tail.state.ready }, 'taking over the kernel');
    const kernelProcess = KernelProcess.adopt(pid, start);
    if (link === null && !tail.state.ready) {
      // The kernel has sent nothing yet and got no request: this is a start like any other.
      this.#requests.addFirst(tail.unanswered);
      this.#live(kernelProcess, null);
    } else {
      this.#lost = new LostReplies(new JournalReader(journalDir), this.#journal.lastSeq);
      const life = this.#live(kernelProcess, { tail, link, routingId: routingIdOf(connection), log });
      void this.#replaceLostReplies(life, this.#lost).catch((error: unknown) =>
        log.error({ err: error }, 'lost replies were not made up for')
      );
    }
  }

  /** Answers earlier requests that will get no reply. */
  async #replaceLostReplies(life: KernelLife, lost: LostReplies): Promise<void> {
    await life.settled;
    const isWhole = !life.hasGap && this.#journal.cuts.length === 0;
    const requests = isWhole ? [] : await lost.find(life);
    if (life !== this.#life) return;
    this.#lost = null;
    if (this.#state.session === null) return;
    for (const request of requests) {
      this.parts.log.warn(
        { msgId: request.header.msg_id },
        'a reply is lost; the keeper stands in for the kernel'
      );
      this.#answerFor(request);
      this.#state.status('idle', request.header, request.text);
    }
  }

  /** `takeover`: another keeper owned the process before. */
  #live(kernelProcess: KernelProcess, takeover: TakeoverParts | null): KernelLife {
    this.#idle.clear();
    const { connection, kernelDir, log, listener } = this.parts;
    const life = new KernelLife(
      kernelProcess,
      connection,
      this.#own,
      this.#requests,
      {
        seenSession: session => this.#state.seenSession(session),
        message: (message, header, parent) => this.#received(message, header, parent),
        kernelInfo: content => (this.#kernelInfo = content),
        gap: gap => this.#journal.append(...ownRecord(gap))
      },
      log,
      takeover
    );
    this.#life = life;
    const confirmer = new Confirmer(
      {
        kernelDir,
        kernelPid: kernelProcess.pid,
        describe: () => ({
          state: this.#state.restorable,
          kernelInfo: this.#kernelInfo,
          ...(this.#renumberedFrom !== null && { renumberedFrom: this.#renumberedFrom })
        }),
        log
      },
      this.#journal.lastSeq
    );
    this.#confirmer = confirmer;
    void Promise.race([life.settled, kernelProcess.exited]).then(() => {
      this.#isSettled = true;
      listener.changed();
    });
    this.parts.processChanged(kernelProcess.pid);
    listener.changed();
    if (takeover?.tail.state.ready === true) {
      void life.settled.then(() => confirmer.begin(takeover.link));
    } else {
      void life.ready.then(async () => {
        if (life === this.#life) {
          log.info({ kernelPid: kernelProcess.pid }, 'the kernel is ready');
          this.#state.ready();
        }
        await life.settled;
        confirmer.begin(takeover?.link ?? (await this.#resendLink()));
      });
    }
    void kernelProcess.exited
      .then(exit => this.#inTurn(() => this.#exited(life, exit)))
      .catch((error: unknown) =>
        log.error({ err: error }, 'the end of the kernel process was not dealt with')
      );
    return life;
  }

  /** Null for a kernel of another launcher. */
  async #resendLink(): Promise<ResendLink | null> {
    const path = this.parts.connection.resend_socket;
    return path === undefined ? null : ResendLink.connect(path);
  }

  async #beginOrFail(): Promise<void> {
    try {
      await this.#begin();
    } catch (error) {
      this.#fail((error as Error).message);
      throw error;
    }
  }

  /** The process has ended. If we did not end it, it crashed, or a client's own shutdown_request ended it. */
  async #exited(life: KernelLife, exit: KernelExit): Promise<void> {
    if (life !== this.#life) {
      return; // ended by us
    }
    const { log } = this.parts;
    const { readyForMs } = life;
    await life.end();
    this.#droppedIdles.clear();
    await this.#confirmer?.close();
    this.#life = null;
    this.parts.processChanged(null);
    const requested = this.#requestedEnd.endKind();
    const reason = requested === null ? describeExit(exit) : `${requested} by a client`;
    if (requested === 'shutdown' || (requested === null && !this.#crashes.mayRestart(readyForMs))) {
      log.error({ ...exit, reason }, 'the kernel has ended for good');
      this.#fail(reason);
      return;
    }
    log.warn({ ...exit, reason }, 'the kernel has ended and is restarted');
    this.#state.restarting(reason);
    this.#journal.append(...ownStatus(this.#own.status('restarting', this.#state.session)));
    this.#leaveOpen(reason);
    await this.#beginOrFail();
  }

  #fail(reason: string): void {
    this.#requests.clear();
    this.#state.dead(reason);
    this.#journal.append(...ownStatus(this.#own.status('dead', this.#state.session)));
    this.#leaveOpen(reason);
  }

  /**
   * Answers for a process that has ended. JupyterLab was notified by its status and dropped the requests; a client like nbclient
   * waits only for its reply, and would wait forever. Requests for the next process are not among them.
   */
  #leaveOpen(reason: string): void {
    const waiting = this.#requests.ids;
    for (const [msgId, request] of [...this.#open])
      if (!waiting.has(msgId)) this.#answerFor(request, kernelEnded(reason));
  }

  #answerFor(request: OpenRequest, replacement?: ReplacementReply): void {
    this.#open.delete(request.header.msg_id);
    const { reply, idle } = replacementMessages(
      request,
      this.#own.sessionFor(this.#state.session),
      replacement
    );
    this.#journal.append(...fromKernel(reply, 'execute_reply', null));
    this.#journal.append(...fromKernel(idle, 'status', 'idle'));
  }

  #idleDropped(request: OpenRequest): void {
    const now = Date.now();
    this.parts.log.warn({ msgId: request.header.msg_id }, 'the kernel dropped messages on iopub');
    const reason =
      'The kernel sent output faster than its publisher stores it and dropped messages, the end of a cell among them; output of that cell may be missing.';
    this.#journal.append(
      ...ownRecord({ type: 'gap', count: null, code: 'kernel_output_dropped', reason, from: now, to: now })
    );
    const { idle } = replacementMessages(request, this.#own.sessionFor(this.#state.session));
    this.#journal.append(...fromKernel(idle, 'status', 'idle'));
    this.#state.status('idle', request.header, request.text);
  }

  async #endLife(restart: boolean): Promise<void> {
    const life = this.#life;
    if (life === null) return;
    const busy = this.#state.busyParent !== null || !life.isReady;
    this.#life = null;
    life.closeRequests();
    try {
      await endProcess(life, { waitMs: this.parts.launch.shutdownWaitMs, restart, busy });
    } finally {
      await life.end();
      this.#droppedIdles.clear();
      await this.#confirmer?.close();
      this.parts.processChanged(null);
    }
  }

  #received(message: KernelMessage, header: MessageHeader, parent: MessageHeader | null): void {
    this.#lastActivity = Date.now();
    if (message.channel === 'stdin') this.#secrets.inputRequested(message, header);
    const status = statusOf(header.msg_type, message);
    this.#inFlight = { channel: message.channel, msgId: header.msg_id };
    this.#journal.append(...fromKernel(message, header.msg_type, status));
    this.#inFlight = NOTHING_IN_FLIGHT;
    this.#confirmer?.received(message.channel, header.msg_id);
    if (message.channel !== 'iopub' && parent !== null) this.#requestedEnd.answered(parent);
    if (message.channel === 'shell' && parent !== null) {
      const request = this.#open.get(parent.msg_id);
      this.#open.delete(parent.msg_id);
      if (request !== undefined && !this.#idle.delete(parent.msg_id)) this.#droppedIdles.replied(request);
      this.#lost?.replied(parent);
    }
    if (status !== null && message.channel === 'iopub') {
      if (status === 'idle' && parent !== null) {
        if (this.#open.has(parent.msg_id)) this.#idle.add(parent.msg_id);
        this.#droppedIdles.idle(parent.msg_id);
      }
      this.#state.status(status, parent, textOf(message, PART.parentHeader));
    }
  }

  /** Runs tasks one after the other. After a shutdown request, further ones are refused. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    return this.#queue.run(() => {
      if (this.#stopping !== null) throw new KeeperError('keeper_stopping', 'The kernel is being shut down.');
      return work();
    });
  }
}

async function removeAfter(starting: Promise<KernelProcess>, short: ShortConnection): Promise<void> {
  await starting.then(started => started.exited).catch(() => undefined);
  await short.remove();
}
