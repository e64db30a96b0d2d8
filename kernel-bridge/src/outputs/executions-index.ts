/**
 * The place of each execution in a kernel's journal: maps the msg_id of the execute_request to the cell, a hash of the
 * code, the range of records and the state. Fed with every record in order. It avoids reading the whole journal for one
 * cell; everything in it can be recomputed from the journal.
 */
import { gapOf, type GapRecord, isRestart, type JournalRecord } from '../journal/index.js';
import { integerOrNull, pageOf } from './kernel-output.js';
import {
  contentMentions,
  contentOf,
  displayKeyOf,
  type JournaledMessage,
  MessageReader,
  metadataOf
} from './message-of-record.js';
import {
  capture,
  cleared,
  codeHash,
  type Display,
  type Execution,
  isOpen,
  executionsToDrop,
  MAX_GAPS,
  type OutputWidget,
  shown
} from './execution.js';
import { INDEX_LIMITS, type IndexLimits, type IndexState } from './index-file.js';
import { Captures, widgetChangeOf } from './output-widgets.js';
import { dropOldest } from '@tpulab/platform/bounded.js';

const OUTPUT_TYPES: ReadonlySet<string> = new Set(['stream', 'display_data', 'execute_result', 'error']);
const DISPLAY_TYPES: ReadonlySet<string> = new Set(['display_data', 'execute_result', 'update_display_data']);
const ENDED: ReadonlySet<string> = new Set(['restarting', 'dead']);

/** Time and number of a record. */
type Moment = Pick<JournaledMessage, 'seq' | 'timeMs'>;

export class ExecutionsIndex {
  readonly #messages = new MessageReader();
  readonly #executions: Map<string, Execution>;
  readonly #displays: Map<string, Display>;
  readonly #widgets: Map<string, OutputWidget>;
  readonly #captures: Captures;
  readonly #open = new Set<Execution>();
  #throughSeq: number;
  #kernelSession: string | null;
  #restartSeq: number;
  #processSeq: number;
  #forgotten: number;
  #forgotDisplays: boolean;

  constructor(
    state: IndexState | null = null,
    private readonly limits: IndexLimits = INDEX_LIMITS
  ) {
    this.#executions = new Map(state?.executions.map(each => [each.msgId, each]));
    this.#displays = new Map(state?.displays.map(each => [each.id, each]));
    this.#widgets = new Map(state?.widgets.map(each => [each.commId, each]));
    this.#captures = Captures.from(state?.captures ?? []);
    this.#throughSeq = state?.throughSeq ?? 0;
    this.#kernelSession = state?.kernelSession ?? null;
    this.#restartSeq = state?.restartSeq ?? 0;
    this.#processSeq = state?.processSeq ?? 0;
    this.#forgotten = state?.forgotten ?? 0;
    this.#forgotDisplays = state?.forgotDisplays ?? false;
    for (const execution of this.#executions.values()) if (isOpen(execution)) this.#open.add(execution);
  }

  /** The newest record that is included. */
  get throughSeq(): number {
    return this.#throughSeq;
  }

  /** Session of the process that sent the last message. */
  get kernelSession(): string | null {
    return this.#kernelSession;
  }

  /** Requests up to this record belong to earlier processes. */
  get processSeq(): number {
    return this.#processSeq;
  }

  get forgotten(): number {
    return this.#forgotten;
  }

  /** Whether displays may have been updated by messages that the index does not have. */
  get forgotDisplays(): boolean {
    return this.#forgotDisplays;
  }

  /** In the order of their requests. */
  executions(): Execution[] {
    return [...this.#executions.values()];
  }

  widgets(): OutputWidget[] {
    return [...this.#widgets.values()];
  }

  isOutputWidget(commId: string): boolean {
    return this.#widgets.has(commId);
  }

  /** The execution that a widget captures now. */
  capturedBy(commId: string): string | null {
    return this.#captures.of(commId);
  }

  display(id: string): Display | undefined {
    return this.#displays.get(id);
  }

  state(): IndexState {
    return {
      throughSeq: this.#throughSeq,
      kernelSession: this.#kernelSession,
      restartSeq: this.#restartSeq,
      processSeq: this.#processSeq,
      forgotten: this.#forgotten,
      forgotDisplays: this.#forgotDisplays,
      executions: this.executions(),
      displays: [...this.#displays.values()],
      widgets: this.widgets(),
      captures: this.#captures.toJSON()
    };
  }

  apply(record: JournalRecord): void {
    const gap = gapOf(record);
    this.#throughSeq = Math.max(record.seq, gap?.toSeq ?? 0);
    if (gap !== null) {
      this.#gap(record.seq, gap);
      return;
    }
    if (isRestart(record)) {
      this.#ended({ seq: record.seq, timeMs: Number(record.timeNs / 1_000_000n) });
      return;
    }
    const message = this.#messages.read(record);
    if (message === null) return;
    if (message.fromClient) this.#fromClient(message);
    else this.#fromKernel(message);
  }

  #fromClient(message: JournaledMessage): void {
    if (message.msgType !== 'execute_request') return;
    const content = contentOf(message);
    const { cellId } = metadataOf(message);
    const execution = this.#add(message, message.msgId);
    execution.cellId = typeof cellId === 'string' ? cellId : null;
    execution.codeHash = typeof content['code'] === 'string' ? codeHash(content['code']) : null;
    execution.hidden = content['silent'] === true && execution.cellId === null;
  }

  #fromKernel(message: JournaledMessage): void {
    this.#learnSession(message);
    const widget = message.onIopub ? widgetChangeOf(message, id => this.#widgets.has(id)) : null;
    if (widget !== null) this.#widgetChanged(widget, message);
    if (message.onIopub && message.msgType === 'status' && message.parentId === null) {
      const { execution_state: state } = contentOf(message);
      if (typeof state === 'string' && ENDED.has(state)) this.#ended(message);
      return;
    }
    const execution = this.#executionOf(message);
    if (message.onIopub && DISPLAY_TYPES.has(message.msgType)) this.#displayed(message, execution);
    if (execution === null) return;
    if (message.onIopub) this.#iopub(message, execution);
    else if (message.msgType === 'execute_reply') this.#replied(message, execution);
  }

  /** The process ends here, or has ended. */
  #ended(end: Moment): void {
    this.#restartSeq = this.#processSeq = end.seq;
    this.#lose(end, end.seq);
  }

  /** Requests that are no longer stored are inferred from the kernel's messages about them. */
  #executionOf(message: JournaledMessage): Execution | null {
    if (message.parentId === null) return null;
    const known = this.#executions.get(message.parentId);
    if (known !== undefined || message.parentType !== 'execute_request') return known ?? null;
    // An execution with only states, a silent request for example, would only use memory.
    if (!OUTPUT_TYPES.has(message.msgType) && message.msgType !== 'execute_input') return null;
    return this.#add(message, message.parentId);
  }

  #iopub(message: JournaledMessage, execution: Execution): void {
    const { msgType, seq } = message;
    if (msgType === 'status') {
      if (contentOf(message)['execution_state'] === 'busy') this.#started(execution, message);
    } else if (msgType === 'execute_input') {
      const { execution_count: count, code } = contentOf(message);
      this.#started(execution, message);
      execution.executionCount = integerOrNull(count);
      if (typeof code === 'string') execution.codeHash ??= codeHash(code);
    } else if (msgType === 'clear_output' || OUTPUT_TYPES.has(msgType)) {
      const widget = this.#widgets.get(this.#captures.by(execution.msgId) ?? '');
      if (widget !== undefined) capture(widget, execution.msgId);
      const startSeq = widget?.captureSeq ?? seq;
      if (msgType === 'clear_output') {
        cleared(widget ?? execution, contentOf(message)['wait'] === true, startSeq, seq);
      } else shown(widget ?? execution, startSeq, seq);
    }
  }

  #started(execution: Execution, { seq, timeMs }: JournaledMessage): void {
    execution.startedAt ??= timeMs;
    execution.changedSeq = seq;
    if (execution.state !== 'queued' && execution.state !== 'lost') return;
    execution.state = 'running';
    this.#open.add(execution);
  }

  #replied(message: JournaledMessage, execution: Execution): void {
    const content = contentOf(message);
    const { status } = content;
    const { tpulab } = metadataOf(message);
    execution.changedSeq = execution.finishedSeq = message.seq;
    execution.finishedAt = message.timeMs;
    this.#open.delete(execution);
    if ((tpulab as { replyLost?: unknown } | undefined)?.replyLost === true) {
      execution.state = 'lost';
      return;
    }
    execution.state = status === 'ok' || status === 'error' ? status : 'aborted';
    execution.executionCount = integerOrNull(content['execution_count']) ?? execution.executionCount;
    if (pageOf(content) !== null) shown(execution, message.seq, message.seq);
  }

  #displayed(message: JournaledMessage, execution: Execution | null): void {
    if (!contentMentions(message, '"display_id"')) return;
    const id = displayKeyOf(message);
    if (id === null) return;
    let display = this.#displays.get(id);
    if (display === undefined) {
      display = { id, seq: message.seq, shownBy: [] };
      this.#displays.set(id, display);
      this.#boundDisplays();
    }
    display.seq = message.seq;
    for (const holder of display.shownBy) this.#touch(holder, message.seq);
    if (execution === null || message.msgType === 'update_display_data') return;
    const shownBy = this.#captures.by(execution.msgId) ?? execution.msgId;
    if (!display.shownBy.includes(shownBy)) display.shownBy.push(shownBy);
  }

  #touch(holder: string, seq: number): void {
    const shown = this.#executions.get(holder) ?? this.#widgets.get(holder);
    if (shown !== undefined) shown.changedSeq = seq;
  }

  #widgetChanged(change: ReturnType<typeof widgetChangeOf> & object, { seq }: JournaledMessage): void {
    const { commId, kind } = change;
    let widget = this.#widgets.get(commId);
    if (widget === undefined) {
      if (kind !== 'opened') return;
      const at = { startSeq: seq, captureSeq: seq, lastSeq: seq, changedSeq: seq };
      widget = { commId, ...at, clearPending: false, msgIds: [] };
      this.#widgets.set(commId, widget);
      dropOldest(this.#widgets, this.limits.widgets);
    }
    if (change.msgId !== null && change.msgId !== '') widget.captureSeq = seq;
    this.#captures.apply(change);
    if (change.outputs === null && change.msgId === null) return;
    widget.lastSeq = widget.changedSeq = seq;
  }

  /** Another process answers: requests that the previous one had not answered will never be answered. */
  #learnSession(message: JournaledMessage): void {
    const { session, seq } = message;
    if (session === this.#kernelSession) return;
    const isFirst = this.#kernelSession === null;
    this.#kernelSession = session;
    if (isFirst) return;
    this.#lose(message, this.#restartSeq || seq);
    // If a process's end was not recorded, its waiting requests pass to the next process.
    if (this.#restartSeq === 0) this.#processSeq = seq;
    this.#restartSeq = 0;
    this.#captures.clear();
  }

  /** Requests before `before` without an answer will get none. If one is answered after all, it counts as running. */
  #lose({ seq, timeMs }: Moment, before: number): void {
    for (const execution of this.#open) {
      if (execution.requestSeq >= before) continue;
      execution.state = 'lost';
      execution.changedSeq = execution.finishedSeq = seq;
      execution.finishedAt = timeMs;
      this.#open.delete(execution);
    }
  }

  #gap(seq: number, gap: GapRecord): void {
    const { count, code, reason } = gap;
    for (const execution of this.#open) {
      shown(execution, seq, seq);
      if (execution.gaps.length < MAX_GAPS) execution.gaps.push({ seq, count, code, reason });
    }
  }

  #add({ seq, timeMs, fromClient }: JournaledMessage, msgId: string): Execution {
    const execution: Execution = {
      msgId,
      cellId: null,
      codeHash: null,
      state: fromClient ? 'queued' : 'running',
      executionCount: null,
      requestedAt: timeMs,
      startedAt: fromClient ? null : timeMs,
      finishedAt: null,
      requestSeq: seq,
      startSeq: seq,
      lastSeq: seq,
      changedSeq: seq,
      clearPending: false,
      hidden: false,
      gaps: []
    };
    // A client may resend the same request; the later one determines its position.
    this.#executions.delete(msgId);
    this.#executions.set(msgId, execution);
    this.#open.add(execution);
    if (this.#executions.size > this.limits.executions) this.#evictOldest();
    return execution;
  }

  /** Drops the least needed tenth of the executions. */
  #evictOldest(): void {
    const count = Math.ceil(this.limits.executions / 10);
    for (const each of executionsToDrop(this.executions(), count)) {
      this.#executions.delete(each.msgId);
      this.#open.delete(each);
      if (!each.hidden) this.#forgotten++;
    }
  }

  #boundDisplays(): void {
    if (this.#displays.size <= this.limits.displays) return;
    dropOldest(this.#displays, this.limits.displays);
    this.#forgotDisplays = true;
  }
}
