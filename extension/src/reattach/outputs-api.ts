/** Asks a bridge what a kernel has put out, and for single records of its journal: of a kernel of its own, or of the copy that it keeps. */
import { ServerConnection } from '@jupyterlab/services';
import type { CellExecution, JournalEntry, JournalPage, OutputsPage } from '@tpulab/protocol';
import { MAX_OUTPUT_BYTES } from '@tpulab/protocol';
import { requestBridge, type BridgeAnswer, messageOf } from '../backends/bridge-request.js';

/** Everything up to the record `until`, the newest execution of each cell. */
export interface IOutputs {
  readonly executions: readonly CellExecution[];
  readonly widgets: OutputsPage['widgets'];
  readonly until: number;
}

/** Reading a long journal takes longer than other questions; what takes longer than this is stuck. */
const READ_TIMEOUT_MS = 60_000;
/** Records read back in search of a question that the kernel waits for. */
const TAIL_RECORDS = 2_000;

/** Where a bridge tells of its own kernels, below its address. */
export function kernelRoute(kernelId: string): string {
  return `bridge/v1/kernels/${encodeURIComponent(kernelId)}`;
}

export class OutputsApi {
  /** `settings` of the backend; the timeouts of its requests are for short answers, so `fetch` is its own. */
  constructor(
    private readonly settings: () => ServerConnection.ISettings | null,
    private readonly route: string
  ) {}

  /** All pages. With `since` only what has changed after that record. Rejects when the bridge cannot say. */
  async read(since: number | null, signal: AbortSignal): Promise<IOutputs> {
    const first = await this.pages(since, signal);
    let result = first.outputs;
    // While later pages were read the earlier ones may have changed.
    for (let again = first.count > 1; again;) {
      const next = await this.pages(result.until, signal);
      result = merged(result, next.outputs);
      again = next.count > 1;
    }
    return result;
  }

  /** One execution, with as much of its outputs as the bridge gives. */
  async whole(execution: CellExecution, signal: AbortSignal): Promise<CellExecution> {
    if (execution.cellId === null) return execution;
    const query = new URLSearchParams({ cell: execution.cellId, maxBytes: String(MAX_OUTPUT_BYTES) });
    const page = await this.request<OutputsPage>(`outputs?${query}`, signal);
    return page.executions.find(({ msgId }) => msgId === execution.msgId) ?? execution;
  }

  /** One record of the journal; null when it is no longer kept. */
  async record(seq: number, signal: AbortSignal): Promise<JournalEntry | null> {
    const page = await this.request<JournalPage>(`journal?from=${seq}&limit=1`, signal);
    return page.entries.find(entry => entry.seq === seq) ?? null;
  }

  /** The question of `execution` that nobody has answered; null when there is none among the newest records. */
  async question(execution: CellExecution, signal: AbortSignal): Promise<JournalEntry | null> {
    const { lastSeq } = await this.request<JournalPage>(
      `journal?from=${execution.requestSeq}&limit=1`,
      signal
    );
    const from = Math.max(execution.requestSeq, lastSeq - TAIL_RECORDS);
    let pending: JournalEntry | null = null;
    for (let next = from; next <= lastSeq;) {
      const page = await this.request<JournalPage>(`journal?from=${next}&limit=1000`, signal);
      for (const entry of page.entries) {
        if (entry.channel === 'stdin') {
          const isQuestion = !entry.fromClient && entry.parent_header?.['msg_id'] === execution.msgId;
          pending = isQuestion ? entry : null;
        }
      }
      if (page.next <= next) break;
      next = page.next;
    }
    return pending;
  }

  private async pages(
    since: number | null,
    signal: AbortSignal
  ): Promise<{ outputs: IOutputs; count: number }> {
    let outputs: IOutputs | null = null;
    let count = 0;
    for (let after: number | null = null; ;) {
      const query = new URLSearchParams();
      if (since !== null) query.set('since', String(since));
      if (after !== null) query.set('after', String(after));
      const page: OutputsPage = await this.request<OutputsPage>(`outputs?${query}`, signal);
      count += 1;
      // What the first page did not take into account is asked for again, so its `until` counts.
      outputs = outputs === null ? page : { ...merged(outputs, page), until: outputs.until };
      after = page.nextAfter;
      if (after === null) return { outputs, count };
    }
  }

  private async request<T>(path: string, signal: AbortSignal): Promise<T> {
    const answer = await requestBridge({
      settings: this.settings(),
      route: `${this.route}/${path}`,
      timeoutMs: READ_TIMEOUT_MS,
      signals: [signal]
    });
    return readable(answer) as T;
  }
}

/** The body of an answer; throws what a refusal says. */
export function readable(answer: BridgeAnswer): unknown {
  if (!answer.response.ok) {
    throw new ServerConnection.ResponseError(answer.response, messageOf(answer) ?? undefined);
  }
  if (answer.body === undefined) {
    throw new Error('The TPULab server gave an answer that this page cannot read.');
  }
  return answer.body;
}

/** `newer` replaces what it tells of. */
export function merged(older: IOutputs, newer: IOutputs): IOutputs {
  const newIds = new Set(newer.executions.map(({ msgId }) => msgId));
  const cells = new Set(newer.executions.flatMap(({ cellId }) => cellId ?? []));
  const comms = new Set(newer.widgets.map(({ commId }) => commId));
  return {
    executions: [
      ...older.executions.filter(
        ({ msgId, cellId }) => !newIds.has(msgId) && (cellId === null || !cells.has(cellId))
      ),
      ...newer.executions
    ],
    widgets: [...older.widgets.filter(({ commId }) => !comms.has(commId)), ...newer.widgets],
    until: newer.until
  };
}
