/** Requests a kernel's outputs and single records of its journal from a bridge: for its own kernels, or from its stored copy. */
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

/** Reading a long journal takes longer than other requests; a longer wait means that it is stuck. */
const READ_TIMEOUT_MS = 60_000;
/** Maximum number of records read back in search of a question that the kernel waits for. */
const TAIL_RECORDS = 2_000;

/** The route of a bridge's own kernels, below its address. */
export function kernelRoute(kernelId: string): string {
  return `bridge/v1/kernels/${encodeURIComponent(kernelId)}`;
}

export class OutputsApi {
  /** `settings` of the backend; its request timeouts are for short answers, so `fetch` is separate. */
  constructor(
    private readonly settings: () => ServerConnection.ISettings | null,
    private readonly route: string
  ) {}

  /** All pages. With `since` only changes after that record. Rejects when the bridge cannot answer. */
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

  /** One execution, with as many of its outputs as the bridge returns. */
  async whole(execution: CellExecution, signal: AbortSignal): Promise<CellExecution> {
    if (execution.cellId === null) return execution;
    const query = new URLSearchParams({ cell: execution.cellId, maxBytes: String(MAX_OUTPUT_BYTES) });
    const page = await this.request<OutputsPage>(`outputs?${query}`, signal);
    return page.executions.find(({ msgId }) => msgId === execution.msgId) ?? execution;
  }

  /** One record of the journal; null when it is no longer stored. */
  async record(seq: number, signal: AbortSignal): Promise<JournalEntry | null> {
    const page = await this.request<JournalPage>(`journal?from=${seq}&limit=1`, signal);
    return page.entries.find(entry => entry.seq === seq) ?? null;
  }

  /** The unanswered question of `execution`; null when there is none among the newest records. */
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
      // Changes not included in the first page are requested again, so its `until` counts.
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

/** The body of an answer; throws the reason of a refusal. */
export function readable(answer: BridgeAnswer): unknown {
  if (!answer.response.ok) {
    throw new ServerConnection.ResponseError(answer.response, messageOf(answer) ?? undefined);
  }
  if (answer.body === undefined) {
    throw new Error('The TPULab server gave an answer that this page cannot read.');
  }
  return answer.body;
}

/** `newer` replaces the entries that it contains. */
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
