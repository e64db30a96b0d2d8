/** Answers a request for the outputs of a kernel: which executions, their outputs, and how to continue. */
import type { CapturedOutputs, CellExecution, OutputEntry } from '@tpulab/protocol';
import { gapText, type JournalReader, type JournalRecord, type NumberedGap } from '../journal/index.js';
import { type Execution, isOpen, type OutputWidget } from './execution.js';
import type { ExecutionsIndex } from './executions-index.js';
import { displayIdIn } from './message-of-record.js';
import { OutputArea } from './output-area.js';
import { Turns } from '@tpulab/platform/waiting.js';
import { type Chosen, OutputsPass } from './outputs-pass.js';

export interface OutputsRequest {
  /** Only these cells; null: all. */
  readonly cells?: ReadonlySet<string> | null;
  /** Only what changed after this record. */
  readonly since?: number;
  /** Only executions requested after this record. */
  readonly after?: number;
  readonly limit?: number;
  /** Limit for the outputs of one execution. */
  readonly maxBytes?: number;
  /** Also executions of a cell that was executed again since. */
  readonly history?: boolean;
  /** Only executions that may be seen; absent: all. */
  readonly visible?: (execution: Execution) => boolean;
}

export interface Outputs {
  readonly until: number;
  readonly executions: CellExecution[];
  readonly widgets: CapturedOutputs[];
  readonly nextAfter: number | null;
  readonly forgotten: number;
}

export const DEFAULT_MAX_BYTES = 2 * 1024 * 1024;

/** An answer ends early at this size, so that one request cannot fill the memory. */
const ANSWER_BYTES = 32 * 1024 * 1024;

interface Source {
  readonly index: ExecutionsIndex;
  readonly reader: JournalReader;
  readonly signal: AbortSignal;
}

export async function readOutputs({
  request,
  lostEnd,
  ...source
}: Source & {
  readonly request: OutputsRequest;
  /** The journal ends with damage: how much is missing is unknown. */
  readonly lostEnd: NumberedGap | null;
}): Promise<Outputs> {
  const { index } = source;
  const { limit = 200, maxBytes = DEFAULT_MAX_BYTES } = request;
  const matching = chooseExecutions(index, request);
  const executions = matching.slice(0, limit).map(of => ({ of, area: new OutputArea(maxBytes) }));
  // Widgets have no position among the executions: they are sent with the first page.
  const widgets = chooseWidgets(index, request).map(of => ({ of, area: new OutputArea(maxBytes) }));
  const pass = new Pass(source, executions, widgets, Number.isFinite(maxBytes) ? ANSWER_BYTES : Infinity);
  await pass.run();
  const shown = pass.executions;
  return {
    until: index.throughSeq,
    executions: shown.map(each => describeExecution(each, index, isOpen(each.of) ? lostEnd : null)),
    widgets: widgets.map(each => describeWidget(each, index)),
    nextAfter: shown.length < matching.length ? (shown.at(-1)?.of.requestSeq ?? null) : null,
    forgotten: index.forgotten
  };
}

function chooseExecutions(index: ExecutionsIndex, request: OutputsRequest): Execution[] {
  const { cells = null, since = 0, after = 0, history = false, visible: isVisible } = request;
  const visible = index.executions().filter(({ hidden }) => !hidden);
  const newest = new Map(visible.map(({ cellId, msgId }) => [cellId, msgId]));
  return visible.filter(execution => isVisible?.(execution) !== false && isRequested(execution));
  function isRequested({ cellId, msgId, changedSeq, requestSeq }: Execution): boolean {
    return (
      requestSeq > after &&
      changedSeq > since &&
      (cells === null || (cellId !== null && cells.has(cellId))) &&
      (history || cellId === null || newest.get(cellId) === msgId)
    );
  }
}

function chooseWidgets(
  index: ExecutionsIndex,
  { cells = null, since = 0, after = 0, visible }: OutputsRequest
): OutputWidget[] {
  if (after > 0) return [];
  const shown = new Set(
    index.executions().flatMap(each => (visible === undefined || visible(each) ? each.msgId : []))
  );
  const of = new Set(
    index
      .executions()
      .flatMap(({ cellId, msgId }) => (cellId !== null && cells?.has(cellId) === true ? msgId : []))
  );
  return index
    .widgets()
    .filter(
      ({ changedSeq, msgIds }) =>
        changedSeq > since &&
        msgIds.length > 0 &&
        (visible === undefined || msgIds.every(id => shown.has(id))) &&
        (cells === null || msgIds.some(id => of.has(id)))
    );
}

class Pass {
  #executions: readonly Chosen<Execution>[];
  readonly #pass: OutputsPass;
  readonly #turns = new Turns();

  constructor(
    private readonly source: Source,
    executions: readonly Chosen<Execution>[],
    private readonly widgets: readonly Chosen<OutputWidget>[],
    private readonly maxBytes: number
  ) {
    this.#executions = executions;
    this.#pass = new OutputsPass(source.index, executions, widgets);
  }

  get executions(): readonly Chosen<Execution>[] {
    return this.#executions;
  }

  async run(): Promise<void> {
    for (const { from, to } of rangesOf([...this.#executions, ...this.widgets])) await this.#read(from, to);
    await this.#updateDisplays();
  }

  async #read(from: number, to: number): Promise<void> {
    for await (const batch of this.#range(from, to)) {
      this.source.signal.throwIfAborted();
      for (const record of batch) {
        for (const _step of this.#pass.apply(record)) await this.#turns.give();
        await this.#turns.give();
      }
      this.#bound();
    }
  }

  #range(from: number, to: number): AsyncIterable<readonly JournalRecord[]> {
    const { reader, signal } = this.source;
    return reader.readAcross(from, { to, newest: () => to, signal });
  }

  /** Leaves the last executions to the next page, but always keeps at least one. */
  #bound(): void {
    const all = [...this.#executions, ...this.widgets];
    let bytes = all.reduce((sum, { area }) => sum + area.bytes, 0);
    if (bytes <= this.maxBytes) return;
    const listed = [...this.#executions];
    while (bytes > this.maxBytes && listed.length > 1) bytes -= listed.pop()?.area.bytes ?? 0;
    if (listed.length === this.#executions.length) return;
    this.#executions = listed;
    this.#pass.retainOnly(listed);
  }

  /** A display may have been updated by a record outside the ranges that were read. */
  async #updateDisplays(): Promise<void> {
    const { index } = this.source;
    const records = new Set<number>();
    let scanFrom = Infinity;
    for (const { area } of [...this.#executions, ...this.widgets]) {
      for (const [id, seq] of area.displays()) {
        const newest = index.display(id)?.seq;
        if (newest !== undefined && newest > seq) records.add(newest);
        else if (newest === undefined && index.forgotDisplays) scanFrom = Math.min(scanFrom, seq + 1);
      }
    }
    for (const seq of records) {
      for await (const batch of this.#range(seq, seq)) {
        for (const record of batch) this.#pass.applyUpdate(record);
      }
      await this.#turns.give();
    }
    if (scanFrom === Infinity) return;
    for await (const batch of this.#range(scanFrom, index.throughSeq)) {
      for (const record of batch) {
        this.#pass.applyUpdate(record);
        await this.#turns.give();
      }
    }
  }
}

/** The ranges of the journal to read, in order, without irrelevant ranges in between. */
function rangesOf(chosen: readonly Chosen[]): { from: number; to: number }[] {
  const sorted = chosen
    .map(({ of }) => ({ from: of.startSeq, to: of.lastSeq }))
    .sort((a, b) => a.from - b.from);
  const joined: { from: number; to: number }[] = [];
  for (const { from, to } of sorted) {
    const last = joined.at(-1);
    if (last === undefined || from > last.to + 1) joined.push({ from, to });
    else last.to = Math.max(last.to, to);
  }
  return joined;
}

function describeExecution(
  { of, area }: Chosen<Execution>,
  index: ExecutionsIndex,
  lostEnd: NumberedGap | null
): CellExecution {
  const lost = lostEnd && { seq: lostEnd.fromSeq, count: null, code: lostEnd.code, reason: lostEnd.reason };
  if (lost) area.add({ output_type: 'stream', name: 'stderr', text: gapText(lost) }, { seq: lost.seq });
  const { msgId, cellId, codeHash, state, executionCount, requestSeq, changedSeq, gaps } = of;
  return {
    msgId,
    cellId,
    codeHash,
    state,
    executionCount,
    requestedAt: timeText(of.requestedAt),
    startedAt: of.startedAt === null ? null : timeText(of.startedAt),
    finishedAt: of.finishedAt === null ? null : timeText(of.finishedAt),
    ...(of.finishedSeq !== undefined && { finishedSeq: of.finishedSeq }),
    requestSeq,
    changedSeq,
    outputs: entriesOf(area, index),
    clearPending: area.clearPending,
    cutBytes: area.cutBytes,
    gaps: [...gaps, ...(lost ? [lost] : [])]
  };
}

function describeWidget({ of, area }: Chosen<OutputWidget>, index: ExecutionsIndex): CapturedOutputs {
  return {
    commId: of.commId,
    msgIds: [...of.msgIds],
    capturing: index.capturedBy(of.commId) !== null,
    changedSeq: of.changedSeq,
    outputs: entriesOf(area, index),
    clearPending: area.clearPending,
    cutBytes: area.cutBytes
  };
}

/** The kernel's ids of displays. Displays of an earlier process are left out: nothing can update them any more. */
function entriesOf(area: OutputArea, { kernelSession }: ExecutionsIndex): OutputEntry[] {
  return area.entries().map(entry => ({ ...entry, displayId: displayIdIn(kernelSession, entry.displayId) }));
}

/** The execution's state when no kernel is left to answer it. */
export function withoutKernel(execution: CellExecution): CellExecution {
  return isOpen(execution) ? { ...execution, state: 'lost' } : execution;
}

function timeText(unixMs: number): string {
  return new Date(unixMs).toISOString();
}
