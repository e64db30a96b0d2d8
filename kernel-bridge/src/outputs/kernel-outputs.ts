/**
 * The outputs of one kernel, read back from its journal: keeps the index up to date and answers requests. One task runs
 * at a time, so that an answer contains exactly the state at its `until`.
 */
import { v1JsonEnd } from '../jupyter/index.js';
import { gapOf, JournalReader, type JournalRecord, type NumberedGap } from '../journal/index.js';
import type { Execution } from './execution.js';
import { ExecutionsIndex } from './executions-index.js';
import {
  INDEX_LIMITS,
  type IndexLimits,
  loadIndex,
  saveIndex,
  type Witness,
  witnessOf
} from './index-file.js';
import { InTurn, Turns } from '@tpulab/platform/waiting.js';
import { type Outputs, type OutputsRequest, readOutputs } from './read-outputs.js';

export interface KernelOutputsOptions {
  readonly journalDir: string;
  /** Null: the index is not stored. Only one process, the gateway, may store it. */
  readonly indexFile: string | null;
  /** The index file of another process to start from, if any. */
  readonly readIndexFrom?: string | null;
  readonly limits?: IndexLimits;
  readonly onSaveFailed?: (error: unknown) => void;
}

/** After this many records since the last save, the index is saved again. */
const SAVE_AFTER = 5000;

/** Rejects a read whose outputs were abandoned or disposed of. */
export class OutputsClosedError extends Error {
  override readonly name = 'OutputsClosedError';

  constructor() {
    super('the outputs are no longer read');
  }
}

export class KernelOutputs implements AsyncDisposable {
  readonly #reader: JournalReader;
  #index: ExecutionsIndex | null = null;
  #savedSeq = 0;
  #witness: Witness | null = null;
  readonly #work = new InTurn();
  readonly #disposed = new AbortController();
  readonly #turns = new Turns();
  #abandoned = false;

  constructor(private readonly options: KernelOutputsOptions) {
    this.#reader = new JournalReader(options.journalDir);
  }

  /** Reads the records added up to `to`. */
  catchUp(to: number): Promise<void> {
    return this.#inTurn(async () => {
      await this.#catchUp(to, this.#disposed.signal);
    });
  }

  /**
   * `to`: the newest record to include; null for all that the journal has now. `isOver`: nothing is written any more, so
   * everything is read, and damage at the end is reported to executions that were waiting for more.
   */
  read(
    request: OutputsRequest,
    to: number | null,
    { signal, isOver = false }: { readonly signal?: AbortSignal | undefined; readonly isOver?: boolean } = {}
  ): Promise<Outputs> {
    return this.#inTurn(async () => {
      using stop = new EitherSignal(this.#disposed.signal, signal);
      const { index, lostEnd } = isOver
        ? await this.#readToEnd(stop.signal)
        : {
            index: await this.#catchUp(to ?? (await this.#reader.lastSeq()), stop.signal),
            lostEnd: null
          };
      return await readOutputs({ index, reader: this.#reader, request, signal: stop.signal, lostEnd });
    });
  }

  /** Executions of the current process, as of that record. */
  executions(to: number): Promise<{ executions: Execution[]; until: number }> {
    return this.#inTurn(async () => {
      const index = await this.#catchUp(to, this.#disposed.signal);
      const executions = index.executions().filter(({ requestSeq }) => requestSeq > index.processSeq);
      return { executions, until: index.throughSeq };
    });
  }

  /** Stops current work; nothing is written after that. */
  abandon(): void {
    this.#abandoned = true;
    this.#disposed.abort(new OutputsClosedError());
  }

  /** Stops current work and saves the index. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed.abort(new OutputsClosedError());
    await this.#work.settled;
    await this.#save(1);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#work.run(() => {
      this.#disposed.signal.throwIfAborted();
      return work();
    });
  }

  async #catchUp(to: number, signal: AbortSignal): Promise<ExecutionsIndex> {
    const index = (this.#index ??= await this.#load());
    const unread = { to, newest: () => to, signal, needed: v1JsonEnd };
    for await (const batch of this.#reader.readAcross(index.throughSeq + 1, unread)) {
      await this.#indexBatch(index, batch, signal);
    }
    await this.#save(SAVE_AFTER);
    return index;
  }

  /**
   * Like `#catchUp`, for a journal that is no longer written; also returns the gap at its end. The index omits that gap:
   * its number belongs to another record when a kernel with the same id continues the journal.
   */
  async #readToEnd(signal: AbortSignal): Promise<{ index: ExecutionsIndex; lostEnd: NumberedGap | null }> {
    const index = (this.#index ??= await this.#load());
    let gap: readonly JournalRecord[] = [];
    const toTheEnd = { ended: true, signal, needed: v1JsonEnd };
    for await (const batch of this.#reader.readAcross(index.throughSeq + 1, toTheEnd)) {
      await this.#indexBatch(index, gap, signal);
      gap = batch[0]?.missing === undefined ? [] : batch;
      if (gap.length === 0) await this.#indexBatch(index, batch, signal);
    }
    await this.#save(SAVE_AFTER);
    return { index, lostEnd: gap[0]?.missing ?? null };
  }

  async #indexBatch(
    index: ExecutionsIndex,
    batch: readonly JournalRecord[],
    signal: AbortSignal
  ): Promise<void> {
    signal.throwIfAborted();
    for (const record of batch) {
      index.apply(record);
      await this.#turns.give();
    }
    this.#remember(batch);
  }

  async #load(): Promise<ExecutionsIndex> {
    const { indexFile, readIndexFrom = null, limits = INDEX_LIMITS } = this.options;
    const file = indexFile ?? readIndexFrom;
    const saved = file === null ? null : await loadIndex(file, this.#reader);
    this.#savedSeq = saved?.state.throughSeq ?? 0;
    this.#witness = saved?.witness ?? null;
    return new ExecutionsIndex(saved?.state ?? null, limits);
  }

  /** A gap from the reader is not a record, so it cannot serve as a witness. Nor can a record that was not read to its end. */
  #remember(batch: readonly JournalRecord[]): void {
    const last = batch.findLast(record => !record.isAbridged && gapOf(record)?.fromSeq === undefined);
    if (last !== undefined) this.#witness = witnessOf(last);
  }

  /** Without an index on disk the next gateway only reads more, which is no reason to fail. */
  async #save(after: number): Promise<void> {
    const { indexFile, onSaveFailed } = this.options;
    const index = this.#index;
    if (indexFile === null || index === null || this.#witness === null || this.#abandoned) return;
    if (index.throughSeq < this.#savedSeq + after) return;
    this.#savedSeq = index.throughSeq;
    try {
      await saveIndex(indexFile, index.state(), this.#witness);
    } catch (error) {
      onSaveFailed?.(error);
    }
  }
}

/** Aborts with either signal. `AbortSignal.any` would leave a listener on the long-lived signal for each request. */
class EitherSignal implements Disposable {
  readonly #either = new AbortController();
  readonly #signals: readonly AbortSignal[];
  readonly #abort: () => void;

  constructor(...signals: readonly (AbortSignal | undefined)[]) {
    this.#signals = signals.filter(signal => signal !== undefined);
    this.#abort = () => {
      this.#either.abort(this.#signals.find(({ aborted }) => aborted)?.reason);
    };
    for (const signal of this.#signals) signal.addEventListener('abort', this.#abort, { once: true });
    if (this.#signals.some(({ aborted }) => aborted)) this.#abort();
  }

  get signal(): AbortSignal {
    return this.#either.signal;
  }

  [Symbol.dispose](): void {
    for (const signal of this.#signals) signal.removeEventListener('abort', this.#abort);
  }
}
