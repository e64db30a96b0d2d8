/**
 * One pass over a range of a journal that computes the outputs of the chosen executions and Output widgets. However many
 * are chosen, and however their records are interleaved, each record is read only once.
 */
import type { NotebookOutput } from '@tpulab/protocol';
import { gapOf, type GapRecord, gapText, type JournalRecord } from '../journal/index.js';
import type { Execution, OutputWidget } from './execution.js';
import type { ExecutionsIndex } from './executions-index.js';
import { outputOf, pageOf } from './kernel-output.js';
import {
  bufferCount,
  contentMentions,
  contentOf,
  displayKeyOf,
  type JournaledMessage,
  MessageReader
} from './message-of-record.js';
import type { OutputArea } from './output-area.js';
import { Captures, widgetChangeOf } from './output-widgets.js';

/** An execution or a widget to compute, and its outputs. */
export interface Chosen<T extends Execution | OutputWidget = Execution | OutputWidget> {
  readonly of: T;
  readonly area: OutputArea;
}

const DISPLAY_MESSAGES: ReadonlySet<string> = new Set([
  'display_data',
  'execute_result',
  'update_display_data'
]);

export class OutputsPass {
  #executions: Map<string, Chosen<Execution>>;
  readonly #widgets: Map<string, Chosen<OutputWidget>>;
  readonly #messages = new MessageReader();
  readonly #captures = new Captures();
  /** The places of each display. */
  readonly #areas = new Map<string, Set<OutputArea>>();

  constructor(
    private readonly index: ExecutionsIndex,
    executions: readonly Chosen<Execution>[],
    widgets: readonly Chosen<OutputWidget>[]
  ) {
    this.#executions = new Map(executions.map(each => [each.of.msgId, each]));
    this.#widgets = new Map(widgets.map(each => [each.of.commId, each]));
  }

  /** Drops the other executions and their outputs. */
  retainOnly(executions: readonly Chosen<Execution>[]): void {
    this.#executions = new Map(executions.map(each => [each.of.msgId, each]));
  }

  /** Runs in steps that each take a moment, however large one message is. */
  *apply(record: JournalRecord): Generator<void, void> {
    const gap = gapOf(record);
    if (gap !== null) {
      this.#gap(record.seq, gap);
      return;
    }
    const message = this.#messages.read(record);
    if (message === null || message.fromClient) return;
    if (message.onIopub) yield* this.#iopub(message);
    else if (message.msgType === 'execute_reply') this.#replied(message);
  }

  /** Gives a display its content from a record outside of the range. */
  applyUpdate(record: JournalRecord): void {
    const message = this.#messages.read(record);
    if (message !== null && !message.fromClient && message.onIopub && DISPLAY_MESSAGES.has(message.msgType)) {
      this.#updateDisplay(message);
    }
  }

  *#iopub(message: JournaledMessage): Generator<void, void> {
    const { msgType, parentId, seq } = message;
    const change = widgetChangeOf(message, id => this.index.isOutputWidget(id));
    if (change !== null) {
      this.#captures.apply(change);
      if (change.outputs !== null) this.#setOutputs(change.commId, change.outputs, seq);
      return;
    }
    if (DISPLAY_MESSAGES.has(msgType)) this.#updateDisplay(message);
    if (parentId === null || msgType === 'update_display_data' || msgType === 'status') return;
    const chosen = this.#targetOf(parentId);
    // Earlier output has been cleared, and may be only partly in the range.
    if (chosen === null || ('startSeq' in chosen.of && seq < chosen.of.startSeq)) return;
    const content = contentOf(message);
    if (msgType === 'clear_output') {
      chosen.area.clear(content['wait'] === true);
      return;
    }
    const output = outputOf(msgType, content);
    if (output === null) return;
    const displayId = displayKeyOf(message);
    if (displayId !== null) this.#shownIn(displayId).add(chosen.area);
    for (const piece of piecesOf(output)) {
      chosen.area.add(piece, { seq, displayId, buffers: bufferCount(message) });
      yield;
    }
  }

  #targetOf(parentId: string): Chosen | null {
    const widget = this.#captures.by(parentId);
    // A widget that the index has dropped no longer captures anything.
    if (widget !== null && this.index.isOutputWidget(widget)) return this.#widgets.get(widget) ?? null;
    return this.#executions.get(parentId) ?? null;
  }

  #updateDisplay(message: JournaledMessage): void {
    if (!contentMentions(message, '"display_id"')) return;
    const content = contentOf(message);
    const id = displayKeyOf(message);
    const shown = id === null ? null : outputOf('display_data', content);
    if (id === null || shown === null) return;
    const origin = { seq: message.seq, buffers: bufferCount(message) };
    // Of very many updates only the last is shown.
    if (message.seq < (this.index.display(id)?.seq ?? 0)) return;
    for (const area of this.#shownIn(id)) area.update(id, shown, origin);
  }

  #shownIn(displayId: string): Set<OutputArea> {
    let areas = this.#areas.get(displayId);
    if (areas === undefined) this.#areas.set(displayId, (areas = new Set()));
    return areas;
  }

  #replied(message: JournaledMessage): void {
    const chosen = message.parentId === null ? undefined : this.#executions.get(message.parentId);
    if (chosen === undefined || message.seq < chosen.of.startSeq) return;
    if (!contentMentions(message, '"page"')) return;
    const page = pageOf(contentOf(message));
    if (page !== null) chosen.area.add(page, { seq: message.seq });
  }

  #setOutputs(commId: string, outputs: readonly NotebookOutput[], seq: number): void {
    const chosen = this.#widgets.get(commId);
    if (chosen === undefined) return;
    chosen.area.clear(false);
    for (const output of outputs) chosen.area.add(output, { seq });
  }

  #gap(seq: number, gap: GapRecord): void {
    for (const { of, area } of this.#executions.values()) {
      if (!concerns(of, seq, gap)) continue;
      area.add({ output_type: 'stream', name: 'stderr', text: gapText(gap) }, { seq });
    }
  }
}

/** Size of a piece of text per step: overwriting and erasing in a long text takes time. */
const PIECE_CHARS = 32 * 1024;

function piecesOf(output: NotebookOutput): readonly NotebookOutput[] {
  if (output.output_type !== 'stream' || output.text.length <= PIECE_CHARS) return [output];
  const pieces: NotebookOutput[] = [];
  for (let at = 0; at < output.text.length; at += PIECE_CHARS)
    pieces.push({ ...output, text: output.text.slice(at, at + PIECE_CHARS) });
  return pieces;
}

/** Whether a gap concerns an execution: it was waiting for more when messages were lost, or its own records are lost. */
function concerns(execution: Execution, seq: number, { fromSeq, toSeq }: GapRecord): boolean {
  if (execution.gaps.some(gap => gap.seq === seq)) return true;
  if (fromSeq === undefined || toSeq === undefined) return false;
  return execution.startSeq <= toSeq && execution.lastSeq >= fromSeq;
}
