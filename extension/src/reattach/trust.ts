/**
 * Which outputs may run scripts in this page: outputs of executions that were requested through the bridge on this machine, as if
 * they had arrived live. Other outputs that a remote has for a cell could be anything: only the remote itself vouches for them.
 */
import type { ServerConnection } from '@jupyterlab/services';
import { type CellExecution, MAX_REQUESTED, type RequestedAnswer } from '@tpulab/protocol';
import { requestBridge } from '../backends/bridge-request.js';
import { readable } from './outputs-api.js';

/** Answered from memory. */
const TIMEOUT_MS = 10_000;
const MAX_ID = 256;

/** Whether the outputs of an execution are trusted. Unknown outputs are not. */
export interface ITrust {
  /** Looks up these executions. Never rejects. */
  learn(executions: readonly CellExecution[], signal: AbortSignal): Promise<void>;
  has(execution: CellExecution): boolean;
}

/** For kernels of the bridge on this machine: whoever may send it requests is the user. */
export const ALL_TRUSTED: ITrust = { learn: () => Promise.resolve(), has: () => true };

/** For a kernel of a remote: the bridge on this machine has recorded the requests that passed through it. */
export class RequestedHere implements ITrust {
  /** `settings` of the bridge on this machine, never of the remote. */
  constructor(
    private readonly settings: () => ServerConnection.ISettings | null,
    private readonly remote: string,
    private readonly kernelId: string
  ) {}

  has({ msgId }: CellExecution): boolean {
    return this._requested.has(msgId);
  }

  async learn(executions: readonly CellExecution[], signal: AbortSignal): Promise<void> {
    const unknown = executions.filter(({ msgId }) => !this._seen.has(msgId)).filter(isNameable);
    for (let from = 0; from < unknown.length; from += MAX_REQUESTED) {
      const some = unknown.slice(from, from + MAX_REQUESTED);
      try {
        const answer = await requestBridge({
          settings: this.settings(),
          route: `bridge/v1/machines/${encodeURIComponent(this.remote)}/requested`,
          method: 'POST',
          body: {
            kernelId: this.kernelId,
            executions: some.map(({ msgId, cellId }) => ({ msgId, cellId }))
          },
          timeoutMs: TIMEOUT_MS,
          signals: [signal]
        });
        const { requested } = readable(answer) as RequestedAnswer;
        some.forEach(({ msgId }) => this._seen.add(msgId));
        requested.forEach(msgId => this._requested.add(msgId));
      } catch {
        return; // requested again with the next ones
      }
    }
  }

  private readonly _seen = new Set<string>();
  private readonly _requested = new Set<string>();
}

/** The bridge rejects longer or empty ids, and has recorded none. */
function isNameable({ msgId, cellId }: CellExecution): boolean {
  return msgId !== '' && msgId.length <= MAX_ID && (cellId?.length ?? 0) <= MAX_ID;
}

/** Whether trust makes a visible difference for these outputs: texts and pictures are always shown. */
export function hasScriptable({ outputs }: CellExecution): boolean {
  return outputs.some(({ output }) => 'data' in output && Object.keys(output.data).some(isScriptable));
}

export function isScriptable(mimeType: string): boolean {
  return mimeType !== 'text/plain' && !(mimeType.startsWith('image/') && mimeType !== 'image/svg+xml');
}
