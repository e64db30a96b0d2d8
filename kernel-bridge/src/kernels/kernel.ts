/** The gateway's view of one kernel: the connection to its keeper, its last known state, and its listeners. */
import path from 'node:path';
import type { ControlCommand, ControlMessage } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { type BridgeError, bridgeError, isBridgeError } from '@tpulab/platform/errors.js';
import { JournalReader } from '../journal/journal-reader.js';
import type { JournalRecord } from '../journal/record.js';
import { KeeperSearch } from '../keeper-client/search.js';
import type {
  KeeperEvents,
  KeeperHandle,
  KernelSnapshot,
  TelemetryRecord
} from '../keeper-protocol/contract.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import { fullDisk } from '@tpulab/platform/full-disk.js';
import { guarded } from '@tpulab/platform/guard.js';
import { Outbox } from './outbox.js';

export interface KernelListener {
  /** A live record, in order. There may be a hole after the connection to the keeper was re-established. */
  record?(record: JournalRecord): void;
  /** Whether the listener needs the payload of a large record of this channel; without this function it does not. */
  wantsPayload?(channel: number): boolean;
  /** The state, the number of connections, or the newest known record has changed. */
  changed?(): void;
  telemetry?(record: TelemetryRecord): void;
  /** The kernel was shut down; nothing follows. */
  removed?(): void;
}

interface JournalFault {
  readonly code: string;
  readonly message: string;
}

/** Reconnects to the keeper of this kernel; null when it no longer runs. */
export type Reattach = (events: KeeperEvents, signal: AbortSignal) => Promise<KeeperHandle | null>;

export class Kernel {
  readonly id: string;
  readonly directory: string;
  readonly #listeners = new Set<KernelListener>();
  #handle: KeeperHandle | null = null;
  #snapshot: KernelSnapshot | null = null;
  #lastSeq = 0;
  #telemetrySeq = 0;
  #followsTelemetry = false;
  #connections = 0;
  #removed = false;
  #unreachable = false;
  #silent = false;
  #reached = false;
  #reattach: Reattach | null = null;
  readonly #outbox = new Outbox();
  /** The connection to the keeper was lost and is being re-established, to the same keeper or another. */
  #search: KeeperSearch | null = null;
  #recovery: Promise<void> | null = null;
  /** The connection from a search was lost before it was used. */
  #cut = false;
  #journalFault: JournalFault | null = null;
  readonly #unsaved = new Map<string, JournalFault>();

  constructor(
    id: string,
    directory: string,
    private readonly log: Logger
  ) {
    this.id = id;
    this.directory = directory;
  }

  /** The callbacks for the keeper's connection, to be passed when the handle is created. */
  readonly events: KeeperEvents = {
    record: record => {
      this.#lastSeq = record.seq;
      this.#outbox.journaled(record);
      this.#notify(listener => listener.record?.(record));
    },
    wantsPayload: channel => {
      for (const listener of this.#listeners) if (listener.wantsPayload?.(channel) === true) return true;
      return false;
    },
    state: snapshot => {
      // The state is unknown until the silent keeper has sent it; `bind` ends the silence.
      if (this.#silent) return;
      const { executionState, reason } = snapshot;
      if (reason !== null && reason !== this.#snapshot?.reason)
        this.log.info({ kernelId: this.id, executionState, reason }, 'the process of a kernel has ended');
      this.#snapshot = snapshot;
      this.#changed();
    },
    telemetry: record => {
      this.#telemetrySeq = record.seq;
      this.#notify(listener => listener.telemetry?.(record));
    },
    journalFault: fault => {
      this.#journalFault = fault;
      if (fault === null) this.log.info({ kernelId: this.id }, 'the journal can be written again');
      else this.log.error({ kernelId: this.id, fault }, 'the journal cannot be written');
      this.#changed();
    },
    disconnected: error => {
      this.#handle = null;
      // The keeper reports a fault of its journal again when it is found again.
      this.#journalFault = null;
      if (this.#search !== null) this.#cut = true;
      if (this.#search !== null || this.#reattach === null || this.#removed) return;
      this.log.warn({ kernelId: this.id, err: error }, 'connection to the keeper lost');
      this.seek(this.#reattach);
    }
  };

  /** Takes ownership of the handle, and disposes of it. */
  async bind(handle: KeeperHandle, reattach: Reattach): Promise<void> {
    this.#reattach = reattach;
    this.#handle = handle;
    this.#unreachable = false;
    if (!this.#silent) this.#snapshot = handle.snapshot;
    const before = this.#lastSeq;
    const { liveFrom } = await handle.subscribe();
    // Records may already have been pushed while the reply was in flight.
    this.#lastSeq = Math.max(this.#lastSeq, liveFrom - 1);
    if (!this.#outbox.isEmpty) await this.#resendUnwritten(handle, before + 1, liveFrom - 1);
    if (this.#followsTelemetry) await handle.subscribeTelemetry(this.#telemetrySeq);
    this.#snapshot = handle.snapshot;
    this.#silent = false;
    this.#reached = true;
    this.#changed();
  }

  /**
   * Searches for the keeper until it answers or has ended. Neither a lost connection nor silence proves that it has ended.
   * Until then messages are queued, and actions fail once it has been silent.
   */
  seek(reattach: Reattach): KeeperSearch {
    this.#reattach = reattach;
    const search = new KeeperSearch({
      attempt: signal => this.#tryKeeper(reattach, signal),
      silent: error => this.#reportSilentKeeper(error)
    });
    this.#search = search;
    this.#recovery = search.ended.then(end => {
      this.#search = this.#recovery = null;
      if (end.how === 'found') this.log.info({ kernelId: this.id }, 'connected to the keeper');
      if (end.how === 'failed')
        this.log.error({ kernelId: this.id, err: end.error }, 'the keeper cannot be reached');
      if (end.how === 'gone' || end.how === 'failed')
        this.#lost('the process that keeps this kernel has ended');
      this.#sendWaiting();
    });
    return search;
  }

  async #tryKeeper(reattach: Reattach, signal: AbortSignal): Promise<boolean> {
    this.#cut = false;
    const handle = await reattach(this.events, signal);
    if (handle === null) return false;
    try {
      signal.throwIfAborted();
      await this.bind(handle, reattach);
      if (this.#wasCut())
        throw new KeeperError('keeper_disconnected', 'The keeper ended the connection at once.');
      return true;
    } catch (error) {
      if (this.#handle === handle) this.#handle = null;
      await handle[Symbol.asyncDispose]();
      throw error;
    }
  }

  #wasCut(): boolean {
    return this.#cut;
  }

  #reportSilentKeeper(error: KeeperError): void {
    if (!this.#silent)
      this.log.warn({ kernelId: this.id, err: error }, 'the keeper does not answer; it is tried again');
    this.#silent = true;
    if (this.#snapshot) this.presume(this.#snapshot, this.#lastSeq);
  }

  /** Sets the assumed state while the keeper is silent. The newest record is the last one in the journal. */
  presume(snapshot: KernelSnapshot, lastSeq: number): void {
    if (!this.#silent) return;
    this.#lastSeq = Math.max(this.#lastSeq, lastSeq);
    const reason = `the keeper of this kernel (${snapshot.keeperPid}) runs, but does not answer`;
    this.#snapshot = { ...snapshot, executionState: 'unknown', reason, busyParent: null };
    this.#changed();
  }

  /** Ends the search for a keeper, because the kernel gets a new one. */
  async giveUp(): Promise<void> {
    await this.#search?.[Symbol.asyncDispose]();
    if (this.#silent) this.#lost('the process that kept this kernel did not answer');
  }

  /** Requests telemetry from now on, stored history first; repeated after each reconnection. */
  async followTelemetry(): Promise<void> {
    if (this.#followsTelemetry) return;
    this.#followsTelemetry = true;
    await this.#handle?.subscribeTelemetry(this.#telemetrySeq);
  }

  get snapshot(): KernelSnapshot {
    if (!this.#snapshot)
      throw bridgeError('kernel_action_failed', `Kernel ${this.id} has not been started yet.`);
    return this.#snapshot;
  }

  /**
   * The state at the newest delivered record, or null when it is unavailable. `snapshot` may be a little
   * older than the records: good enough to show, but not to report to a client.
   */
  async currentSnapshot(): Promise<KernelSnapshot | null> {
    for (let attempt = 0; attempt < 3 && this.#handle; attempt++) {
      const { snapshot } = await this.#handle.status();
      if (snapshot.lastSeq >= this.#lastSeq) return snapshot;
    }
    return null;
  }

  /** Content (JSON text) of the kernel's last kernel_info_reply; null when it is not known. */
  async kernelInfo(): Promise<string | null> {
    return (await this.#handle?.status())?.kernelInfo ?? null;
  }

  /** seq of the newest record that is known to be in the journal; clients that have it are up to date. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Resolves when the kernel has finished resending, at the latest after `limitMs`. */
  settled(limitMs: number): Promise<void> {
    return new Promise(resolve => {
      const end = (): void => {
        clearTimeout(timer);
        listening[Symbol.dispose]();
        resolve();
      };
      const timer = setTimeout(end, limitMs);
      const check = (): void => {
        if (this.#snapshot?.isSettled !== false) end();
      };
      const listening = this.listen({ changed: check, removed: end });
      check();
    });
  }

  /** Why the kernel's output, or the gateway's data about it, cannot be written at the moment; null while it can. */
  get journalFault(): JournalFault | null {
    return this.#journalFault ?? [...this.#unsaved.values()][0] ?? null;
  }

  /**
   * Reports that data beside the journal cannot be saved, with the consequence (`risk`, a sentence), or that it can be
   * saved again (null).
   */
  unsaved(risk: string, error: Error | null): void {
    if ((error !== null) === this.#unsaved.has(risk)) return;
    if (error === null) this.#unsaved.delete(risk);
    else {
      const { code = error.message } = error as NodeJS.ErrnoException;
      const full = fullDisk(error);
      const advice = full === null ? 'See gateway.log' : `Because ${full.why}: ${full.remedy}`;
      this.#unsaved.set(risk, { code: 'state_not_saved', message: `${risk} ${advice} (${code}).` });
      this.log.error({ kernelId: this.id, err: error }, risk);
    }
    this.#changed();
  }

  get journalDir(): string {
    return path.join(this.directory, 'journal');
  }

  get isRemoved(): boolean {
    return this.#removed;
  }

  /** The keeper has ended without being asked to. */
  get isUnreachable(): boolean {
    return this.#unreachable;
  }

  /** The keeper runs, but has not answered; connecting is retried. */
  get isSilent(): boolean {
    return this.#silent;
  }

  /** The keeper is silent and has never answered this gateway. */
  get isPresumed(): boolean {
    return this.#silent && !this.#reached;
  }

  get connections(): number {
    return this.#connections;
  }

  set connections(count: number) {
    this.#connections = count;
    this.#changed();
  }

  listen(listener: KernelListener): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** Passes a checked v1 frame to the kernel. False: wait for `drain` before sending more. */
  send(msgId: string, frame: Buffer): boolean {
    if (this.#recovery !== null) {
      this.#outbox.add(msgId, frame);
      return false;
    }
    const handle = this.#live();
    this.#outbox.add(msgId, frame);
    return this.#sendOutbox(handle);
  }

  drain(): Promise<void> {
    return this.#recovery ?? this.#live().drain();
  }

  /** Forwards a command for a run to the agent. Resolves with its answer; rejects with `Control…Error`. */
  async control(command: ControlCommand): Promise<ControlMessage> {
    await this.#tried();
    try {
      return await this.#live().control(command);
    } catch (error) {
      throw controlError(this.id, error);
    }
  }

  async interrupt(): Promise<void> {
    await this.#act('interrupt', handle => handle.interrupt());
  }

  async restart(): Promise<void> {
    this.#snapshot = await this.#act('restart', handle => handle.restart());
    this.#changed();
  }

  /** Ends the kernel and its keeper. */
  async shutdown(): Promise<void> {
    await this.#tried();
    const handle = this.#handle;
    if (handle) await this.#act('shut down', () => handle.shutdown());
    this.#removed = true;
    await this.detach();
    this.#notify(listener => listener.removed?.());
    this.#listeners.clear();
  }

  /** Disconnects from the keeper, which continues with the kernel. */
  async detach(): Promise<void> {
    const handle = this.#handle;
    this.#handle = null;
    this.#reattach = null;
    await Promise.all([handle?.[Symbol.asyncDispose](), this.#search?.[Symbol.asyncDispose]()]);
  }

  get unreachableMessage(): string {
    const why = this.#snapshot?.reason ?? 'its keeper is not running';
    return `Kernel ${this.id} cannot be reached: ${why}; ${this.#silent ? 'wait, ' : ''}restart or delete it.`;
  }

  /** Resolves when the connection is re-established, or the keeper has been found to be silent. */
  async #tried(): Promise<void> {
    await this.#search?.firstTry;
    if (!this.#silent) await this.#recovery;
  }

  #live(): KeeperHandle {
    if (this.#handle) return this.#handle;
    throw bridgeError('kernel_action_failed', this.unreachableMessage);
  }

  async #act<T>(what: string, action: (handle: KeeperHandle) => Promise<T>): Promise<T> {
    await this.#tried();
    const handle = this.#live();
    try {
      return await action(handle);
    } catch (error) {
      if (error instanceof KeeperError && error.code === 'kernel_restarting') {
        throw bridgeError('kernel_restarting', this.id, error);
      }
      const detail = error instanceof Error ? error.message : String(error);
      throw bridgeError('kernel_action_failed', `Could not ${what} kernel ${this.id}: ${detail}`, error);
    }
  }

  /** Resends the messages that the previous keeper had received and not written when it was killed. */
  async #resendUnwritten(handle: KeeperHandle, from: number, to: number): Promise<void> {
    try {
      for await (const record of new JournalReader(this.journalDir).read(from, { to })) {
        this.#outbox.journaled(record);
      }
    } catch (error) {
      this.log.warn({ kernelId: this.id, err: error }, 'the journal could not be read for requests');
    }
    this.#outbox.requeueSent();
    this.#sendOutbox(handle);
  }

  #sendOutbox(handle: KeeperHandle): boolean {
    let hasRoom = true;
    for (const frame of this.#outbox.takeWaiting()) hasRoom = handle.send(frame);
    return hasRoom;
  }

  /** Sends the messages that arrived during the search for the keeper. */
  #sendWaiting(): void {
    if (this.#handle !== null) {
      this.#sendOutbox(this.#handle);
      return;
    }
    const dropped = this.#outbox.dropWaiting();
    if (dropped > 0)
      this.log.warn({ kernelId: this.id, dropped }, 'messages for a kernel that has ended are dropped');
  }

  #changed(): void {
    this.#notify(listener => listener.changed?.());
  }

  /** A failing listener affects no other listener, and does not end the connection to the keeper. */
  #notify(act: (listener: KernelListener) => void): void {
    const failed = (err: unknown): void =>
      this.log.error({ kernelId: this.id, err }, 'something that watches a kernel failed');
    for (const listener of [...this.#listeners]) guarded(failed, act)(listener);
  }

  #lost(reason: string): void {
    this.#silent = false;
    if (!this.#snapshot || this.#reattach === null) return;
    this.#unreachable = true;
    this.#snapshot = { ...this.#snapshot, executionState: 'dead', reason, busyParent: null };
    this.#changed();
  }
}

/** The error for a client when a command for a run failed before an agent could answer it. */
function controlError(kernelId: string, error: unknown): BridgeError {
  if (isBridgeError(error, 'kernel_action_failed')) return error;
  const detail = error instanceof Error ? error.message : String(error);
  const code = error instanceof KeeperError ? error.code : null;
  switch (code) {
    case 'control_unavailable':
      return bridgeError('control_unavailable', detail, error);
    case 'control_unanswered':
    case 'keeper_timeout':
    case 'keeper_disconnected':
      return bridgeError('control_unanswered', detail, error);
    default:
      return bridgeError('kernel_action_failed', `Could not control kernel ${kernelId}: ${detail}`, error);
  }
}
