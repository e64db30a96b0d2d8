/** The runs stored by a bridge: a list that is requested while a view is open, and one whole run when it is opened. */
import type { ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import {
  type ControlMessage,
  MediaMessage,
  StoredRun as KeptRunBody,
  StoredRuns,
  type StoredRunSummary,
  type RunLabels
} from '@tpulab/protocol';
import { requestBridge, bodyAs, messageOf } from '../backends/bridge-request.js';
import type { BranchRequest } from './branch-view.js';
import { sendCommand } from './control-client.js';
import { randomId } from './model.js';

const LIST_INTERVAL_MS = 30_000;
const ANSWER_MS = 10_000;

/** A run as listed, and whole once it was opened. */
export interface StoredRun {
  readonly key: string;
  readonly summary: StoredRunSummary;
  readonly body: KeptRunBody | null;
}

/** False for a run that was never opened, and for a run that has continued since. */
export function isWhole({ summary, body }: StoredRun): boolean {
  return body?.lastAt === summary.lastAt;
}

export class StoredRunList implements IDisposable {
  /** @param _settings how the bridge is reached now; null while unknown */
  constructor(private readonly _settings: () => ServerConnection.ISettings | null) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Newest first. */
  get runs(): readonly StoredRun[] {
    return this._runs;
  }

  /** False until the bridge has answered once. */
  get isKnown(): boolean {
    return this._isKnown;
  }

  get isDisposed(): boolean {
    return this._stopped.signal.aborted;
  }

  /** Keeps the list current until disposed. */
  poll(intervalMs = LIST_INTERVAL_MS): IDisposable {
    this._subscribers += 1;
    void this.refresh();
    this._timer ??= setInterval(() => void this.refresh(), intervalMs);
    return new DisposableDelegate(() => {
      this._subscribers -= 1;
      if (this._subscribers === 0) {
        clearInterval(this._timer);
        this._timer = undefined;
      }
    });
  }

  /** Never throws: if the bridge is unreachable, the list stays unchanged. */
  async refresh(): Promise<void> {
    const listed = await this._get('bridge/v1/runs', StoredRuns);
    if (!listed || this.isDisposed) {
      return;
    }
    this._isKnown = true;
    const before = new Map(this._runs.map(run => [run.key, run]));
    this._runs = listed.runs.map(summary => ({
      key: summary.key,
      summary,
      body: before.get(summary.key)?.body ?? null
    }));
    this._changed.emit();
  }

  /** Loads the points of a run. Never throws; false when the bridge no longer has it. */
  async open(key: string): Promise<boolean> {
    const body = await this._get(`bridge/v1/runs/${encodeURIComponent(key)}`, KeptRunBody);
    if (!body || this.isDisposed) {
      return false;
    }
    this._runs = this._runs.map(run => (run.key === key ? { ...run, body } : run));
    this._changed.emit();
    return true;
  }

  /** A picture, sound or text with its data; null where the bridge has none. Never throws. */
  medium(key: string, id: number): Promise<MediaMessage | null> {
    return this._get(`bridge/v1/runs/${encodeURIComponent(key)}/media/${id}`, MediaMessage);
  }

  /** Requests a branch from the run's kernel; resolves with the result. */
  async branch({ kernelId, run }: StoredRunSummary, request: BranchRequest): Promise<string> {
    const command = { id: randomId(), action: 'branch' as const, run, ...request };
    const target = { kernelId, settings: this._settings() };
    const answer = await sendCommand(target, command).catch((error: unknown) => error);
    return answer instanceof Error ? answer.message : ((answer as ControlMessage).reason ?? '');
  }

  /** Writes tags, a note or a group to a run. @returns why it failed; null after a success */
  async label(key: string, labels: RunLabels): Promise<string | null> {
    try {
      const answer = await requestBridge({
        settings: this._settings(),
        route: `bridge/v1/runs/${encodeURIComponent(key)}`,
        method: 'PATCH',
        body: labels,
        timeoutMs: ANSWER_MS,
        signals: [this._stopped.signal]
      });
      if (!answer.response.ok) {
        return messageOf(answer) ?? `status ${answer.response.status}`;
      }
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
    await this.refresh();
    return null;
  }

  dispose(): void {
    clearInterval(this._timer);
    this._stopped.abort();
    Signal.clearData(this);
  }

  private async _get<T>(path: string, schema: { readonly static: T }): Promise<T | null> {
    try {
      const answer = await requestBridge({
        settings: this._settings(),
        route: path,
        timeoutMs: ANSWER_MS,
        signals: [this._stopped.signal]
      });
      return answer.response.ok ? bodyAs(schema, answer) : null;
    } catch {
      return null;
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private readonly _stopped = new AbortController();
  private _runs: readonly StoredRun[] = [];
  private _isKnown = false;
  private _subscribers = 0;
  private _timer: ReturnType<typeof setInterval> | undefined;
}
