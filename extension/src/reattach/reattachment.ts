/**
 * Updates the cells of a notebook loaded from its file to its kernel's state: outputs produced in the meantime are placed, and
 * running cells continue as if the page had never been away. No DOM, no Lab application: `INotebook` replaces both.
 *
 * The kernel connection is paused for one short request, so that the bridge's record (up to a position)
 * and the socket's messages (after it) join without gaps or duplicates.
 */
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { CellExecution, JournalEntry } from '@tpulab/protocol';
import type { ChannelLink } from '../backends/channel-link.js';
import { parentMessageId } from '../backends/message-id.js';
import { capturedOf, captureMessages, modelsListen, restoreCaptured } from './captured.js';
import { decide, type Decision, isFinished } from './decide.js';
import { whenever } from '../platform/wait.js';
import { attached, handled } from './kernel-waits.js';
import { frameOf, outputMessages, replyMessage, requestMessage } from './messages.js';
import type { ExecuteFuture, ICodeCell, INotebook } from './notebook.js';
import { type IPlace, placesOf } from './places.js';
import { isSameContent } from './same-content.js';
import { type IOutputs, merged, type OutputsApi } from './outputs-api.js';
import { hasScriptable, type ITrust } from './trust.js';

interface IReattachmentOptions {
  readonly kernel: Kernel.IKernelConnection;
  readonly link: ChannelLink;
  readonly api: OutputsApi;
  readonly notebook: INotebook;
  readonly trust: ITrust;
  /** Loads the widget code, where it is not loaded from the start. */
  loadWidgets?(): Promise<unknown>;
  /** The page is read-only: questions and replies still go to the page that runs the cell. */
  readonly isWatchOnly?: boolean;
  /** Whether another page that is attached now has this session: then that page answers its questions. */
  isAttachedElsewhere(session: string): boolean;
  readonly signal: AbortSignal;
}

/** An execution whose outputs have no place, and why. `ambiguous`: several cells have its code, and none has a stable id. */
export interface IUnplaced {
  readonly execution: CellExecution;
  readonly why: 'changed' | 'missing' | 'ambiguous';
  readonly isTrusted: boolean;
}

export interface IReattached {
  /** The cells have the kernel's outputs up to this record, as far as they belong to them. */
  readonly until: number;
  /** Ids of the cells that are still running, and of the filled cells. */
  readonly running: readonly string[];
  readonly filled: readonly string[];
  /** Whether a filled cell's kernel ended before the cell did. */
  readonly isCutOff: boolean;
  /** Ids of the cells with outputs that are hidden until the user trusts them. */
  readonly untrusted: readonly string[];
  readonly unplaced: readonly IUnplaced[];
  /** Sessions of other users' pages that fill cells of this shared notebook; their cells were left alone. */
  readonly elsewhere: readonly string[];
}

/** How long to wait for the reply that belongs to an idle, before the cell's end is requested from the bridge. */
const REPLY_GRACE_MS = 1_000;

interface IPlan {
  readonly execution: CellExecution;
  readonly cell: ICodeCell;
  readonly decision: Extract<Decision, 'attach' | 'fill' | 'follow'>;
}

const NOTHING: Omit<IReattached, 'until'> = {
  running: [],
  filled: [],
  isCutOff: false,
  untrusted: [],
  unplaced: [],
  elsewhere: []
};

/** Rejects when the bridge cannot answer, or when `signal` ends it; the notebook is then unchanged. */
export function reattach(options: IReattachmentOptions): Promise<IReattached> {
  return new Reattachment(options).run();
}

class Reattachment {
  constructor(private readonly options: IReattachmentOptions) {}

  async run(): Promise<IReattached> {
    const { api, kernel, link, notebook, signal, trust } = this.options;
    const first = await api.read(null, signal);
    if (first.executions.length === 0 || notebook.isDisposed) return { ...NOTHING, until: first.until };
    void this.restoreWidgets(first).catch(() => undefined);
    await trust.learn(first.executions, signal);
    if (this.plans(first.executions).length === 0) {
      return { ...NOTHING, until: first.until, unplaced: this.unplaced(first.executions) };
    }
    await this.takeOver(first.executions);
    if (this.plans(first.executions).length === 0) {
      const unplaced = this.unplaced(first.executions);
      return { ...NOTHING, until: first.until, unplaced, elsewhere: [...this._elsewhere] };
    }
    const kernelSession = await attached(kernel, link, signal);
    await this.widgetsListen(first);
    const hold = link.hold();
    if (hold === null) throw new Error('The connection to the kernel was lost while its outputs were read.');
    try {
      const latest = merged(first, await api.read(first.until, signal));
      await trust.learn(latest.executions, signal);
      if (hold.isOver) throw new Error('The connection to the kernel was lost while its outputs were read.');
      return await this.place(latest, kernelSession, (frames, drop) => hold.finish(frames, drop));
    } finally {
      hold.finish();
    }
  }

  private places(executions: readonly CellExecution[]): IPlace<{ readonly execution: CellExecution }>[] {
    return placesOf(
      executions.map(execution => ({ execution })),
      this.options.notebook
    );
  }

  /** Output widgets of running cells need their models to capture outputs, which would otherwise go to the cells. */
  private async widgetsListen({ executions, widgets }: IOutputs): Promise<void> {
    const { kernel, loadWidgets, signal } = this.options;
    const captured = capturedOf(widgets, this.running(this.plans(executions)));
    if (captured.length > 0) {
      await loadWidgets?.();
      await modelsListen(
        kernel,
        captured.map(({ commId }) => commId),
        signal
      );
    }
  }

  /** Output widgets of ended cells: the kernel never received their captures while no page was open. */
  private async restoreWidgets({ executions, widgets }: IOutputs): Promise<void> {
    const { kernel, link, loadWidgets, isWatchOnly, signal } = this.options;
    const open = new Set(executions.flatMap(each => (isFinished(each) ? [] : each.msgId)));
    const over = widgets.filter(({ msgIds }) => msgIds.length > 0 && !msgIds.some(id => open.has(id)));
    if (over.length === 0 || isWatchOnly === true) return;
    await attached(kernel, link, signal);
    await loadWidgets?.();
    await restoreCaptured(kernel, link, over, signal);
  }

  private running(plans: readonly IPlan[]): Set<string> {
    return new Set(
      plans.flatMap(({ execution, decision }) => (decision === 'attach' ? [execution.msgId] : []))
    );
  }

  /** Selects the cells to update. */
  private plans(executions: readonly CellExecution[]): IPlan[] {
    return this.places(executions).flatMap(({ of: { execution }, cell }) => {
      const decision = decide(execution, cell, this.options.notebook.saved, this.options.kernel.id);
      return cell &&
        (decision === 'attach' || decision === 'fill' || decision === 'follow') &&
        !this._elsewhere.has(this._sessions.get(execution.msgId) ?? '')
        ? [{ execution, cell, decision }]
        : [];
    });
  }

  private unplaced(executions: readonly CellExecution[]): IUnplaced[] {
    const { kernel, notebook, trust } = this.options;
    return this.places(executions).flatMap(({ of: { execution }, cell, isAmbiguous }) => {
      const why = decide(execution, cell, notebook.saved, kernel.id);
      return why === 'changed' || why === 'missing'
        ? [{ execution, why: isAmbiguous ? 'ambiguous' : why, isTrusted: trust.has(execution) }]
        : [];
    });
  }

  /** Replies and questions of running cells were meant for an earlier page: this page receives them from now on. */
  private async takeOver(executions: readonly CellExecution[]): Promise<void> {
    const { api, kernel, link, notebook, signal } = this.options;
    let isNew = false;
    for (const { execution, decision } of this.plans(executions)) {
      if (decision !== 'attach' || this.options.isWatchOnly === true) continue;
      const session = sessionOf(await api.record(execution.requestSeq, signal));
      if (session !== '') this._sessions.set(execution.msgId, session);
      if (notebook.isShared && this.options.isAttachedElsewhere(session)) {
        this._elsewhere.add(session);
        continue;
      }
      if (session !== '' && session !== kernel.clientId && !link.predecessors.has(session)) {
        link.predecessors.add(session);
        isNew = true;
      }
    }
    if (isNew && kernel.connectionStatus === 'connected') await kernel.reconnect();
  }

  private async place(
    outputs: IOutputs,
    kernelSession: string,
    pass: (frames: ArrayBuffer[], drop: (seq: number, data: ArrayBuffer) => boolean) => void
  ): Promise<IReattached> {
    const { kernel, link, notebook, signal, trust } = this.options;
    const plans = this.plans(outputs.executions);
    const before = notebook.content();
    const wasDirty = notebook.isDirty;
    const speaker = (execution: CellExecution): { kernelSession: string; clientSession: string } => ({
      kernelSession,
      clientSession: this._sessions.get(execution.msgId) ?? ''
    });
    const messages: KernelMessage.IIOPubMessage[] = [];
    for (const { execution, cell, decision } of plans) {
      const request = { code: cell.read().source, clientSession: kernel.clientId };
      const future = adopt(kernel, link, execution, request);
      cell.begin(trust.has(execution));
      cell.attach(future);
      messages.push(...outputMessages(execution, speaker(execution)));
      if (decision === 'attach') this.follow(future, execution, cell, kernelSession);
    }
    for (const widget of capturedOf(outputs.widgets, this.running(plans))) {
      messages.push(...captureMessages(widget, kernelSession));
    }
    const placed = new Set(plans.map(({ execution }) => execution.msgId));
    const last = messages.at(-1);
    const shown = last === undefined ? null : handled(kernel, last.header.msg_id, signal);
    pass(
      messages.map(message => frameOf(kernel, message)),
      (seq, data) => seq > 0 && seq <= outputs.until && placed.has(parentMessageId(data) ?? '')
    );
    try {
      await shown;
    } finally {
      for (const { execution, cell, decision } of plans) {
        if (decision !== 'attach' && !notebook.isDisposed) cell.end(execution.executionCount);
      }
    }
    if (!wasDirty && isSameContent(notebook.content(), before)) notebook.isDirty = false;
    await this.showQuestions(plans, kernelSession);
    const idsOf = (wanted: (plan: IPlan) => boolean): string[] =>
      plans.filter(wanted).map(({ cell }) => cell.read().id);
    return {
      until: outputs.until,
      running: idsOf(({ decision }) => decision === 'attach'),
      filled: idsOf(({ decision }) => decision === 'fill'),
      isCutOff: plans.some(({ decision, execution }) => decision === 'fill' && execution.state === 'lost'),
      // A running cell may still produce any output.
      untrusted: idsOf(
        ({ decision, execution }) =>
          !trust.has(execution) && (decision === 'attach' || hasScriptable(execution))
      ),
      unplaced: this.unplaced(outputs.executions),
      elsewhere: [...this._elsewhere]
    };
  }

  /** Shows the questions that the kernel asked before this page was open. */
  private async showQuestions(plans: readonly IPlan[], kernelSession: string): Promise<void> {
    const { api, kernel, link, signal } = this.options;
    for (const { execution, decision } of plans) {
      const owner = this._sessions.get(execution.msgId) ?? '';
      if (
        decision !== 'attach' ||
        this.options.isWatchOnly === true ||
        this.options.isAttachedElsewhere(owner)
      ) {
        continue;
      }
      const entry = await api.question(execution, signal);
      if (entry !== null && entry.header?.['session'] === kernelSession) {
        link.insert(frameOf(kernel, messageOf(entry)));
      }
    }
  }

  /** Ends the cell with its execution, on any of the signals for it. */
  private follow(future: ExecuteFuture, execution: CellExecution, cell: ICodeCell, session: string): void {
    const { notebook } = this.options;
    future.done.then(
      reply => {
        if (!notebook.isDisposed) {
          const count = reply.content.execution_count;
          cell.end(typeof count === 'number' && count > 0 ? count : null);
        }
      },
      // The kernel has ended or was restarted; or the cell was run again, which is handled separately.
      () => {
        if (!notebook.isDisposed && cell.shows(future)) cell.end(null);
      }
    );
    void this.replyAfterIdle(future, execution, session).catch(() => undefined);
  }

  /** The reply may have gone to the requesting page; the bridge knows how the cell has ended. */
  private async replyAfterIdle(
    future: ExecuteFuture,
    execution: CellExecution,
    session: string
  ): Promise<void> {
    const { api, kernel, link, signal } = this.options;
    let isIdle = false;
    const check = (_: unknown, message: KernelMessage.IIOPubMessage): void => {
      const isOfExecution =
        'msg_id' in message.parent_header && message.parent_header.msg_id === execution.msgId;
      if (isOfExecution && message.header.msg_type === 'status') {
        isIdle = (message as KernelMessage.IStatusMsg).content.execution_state === 'idle';
      }
    };
    kernel.iopubMessage.connect(check);
    try {
      await whenever([kernel.iopubMessage, kernel.disposed], () => isIdle || kernel.isDisposed, signal);
    } finally {
      kernel.iopubMessage.disconnect(check);
    }
    const isDone = await Promise.race([
      future.done.then(() => true),
      new Promise<false>(resolve => setTimeout(() => resolve(false), REPLY_GRACE_MS))
    ]);
    if (isDone) return;
    const { executions } = await api.read(execution.requestSeq - 1, signal);
    const ended = executions.find(({ msgId }) => msgId === execution.msgId);
    if (ended && isFinished(ended)) {
      const clientSession = this._sessions.get(execution.msgId) ?? '';
      link.insert(frameOf(kernel, replyMessage(ended, { kernelSession: session, clientSession })));
    }
  }

  private readonly _sessions = new Map<string, string>();
  private readonly _elsewhere = new Set<string>();
}

function sessionOf(entry: JournalEntry | null): string {
  const session = entry?.header?.['session'];
  return typeof session === 'string' ? session : '';
}

/** A message of the journal as it was on the wire; questions have no buffers. */
function messageOf(entry: JournalEntry): KernelMessage.IMessage {
  return {
    channel: entry.channel,
    header: entry.header,
    parent_header: entry.parent_header ?? {},
    metadata: entry.metadata ?? {},
    content: entry.content ?? {},
    buffers: []
  } as unknown as KernelMessage.IMessage;
}

/**
 * Makes Lab's kernel connection adopt a request of an earlier page: a future with the same message id, whose request is not
 * sent because the kernel has it. From then on replies, outputs, questions, hooks and display updates take their usual paths.
 */
function adopt(
  kernel: Kernel.IKernelConnection,
  link: ChannelLink,
  execution: CellExecution,
  request: { readonly code: string; readonly clientSession: string }
): ExecuteFuture {
  link.skipSent(execution.msgId);
  const message = requestMessage(execution, request.code, request.clientSession);
  // Retained after its end, as Lab retains futures of its own cells: a display may be updated by another cell.
  return kernel.sendShellMessage(message, true, false) as ExecuteFuture;
}
