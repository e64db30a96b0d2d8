/** Requests the chips, their holders and the machine's history from a bridge, while a view is open. */
import { URLExt } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { DevicesHistory, DevicesPage, HoldersPage, LibtpuLock } from '@tpulab/protocol';
import { requestBridge, type BridgeAnswer, bodyAs, messageOf, NoAnswer } from '../backends/bridge-request.js';
import type { MachineTelemetry } from './machine-telemetry.js';

/** Owners of chips come and go with kernels; the lookup costs the bridge some milliseconds. */
const PAGE_INTERVAL_MS = 10_000;
const ANSWER_MS = 10_000;
const ADDRESS_UNSURE =
  'The TPULab server did not report whether it removed the lock file; check whether it still exists.';
const UNREADABLE = 'an answer that this page cannot read; update page and server';

export type TierS = 1 | 10 | 60;

/** The bridge gave an invalid answer. `code` is stable; the message contains the remedy. */
export class MachineError extends Error {
  readonly code = 'machine.unavailable';

  constructor(what: string, options?: ErrorOptions) {
    super(`The TPULab server sent no machine status (${what}); the page retries.`, options);
    this.name = 'MachineError';
  }
}

interface MachineSourceOptions {
  readonly machine: MachineTelemetry;
  /** How the bridge is reached now; null while unknown. */
  readonly settings: () => ServerConnection.ISettings | null;
}

export class MachineSource implements IDisposable {
  constructor(private readonly _options: MachineSourceOptions) {}

  get isDisposed(): boolean {
    return this._stopped.signal.aborted;
  }

  /** Keeps `machine.page` current until disposed. Several views share the same requests. */
  watch(): IDisposable {
    this._viewers += 1;
    this._poll();
    return new DisposableDelegate(() => {
      this._viewers -= 1;
      if (this._viewers === 0) {
        clearTimeout(this._timer);
        this._timer = undefined;
      }
    });
  }

  /** Requests immediately for open views: the address has changed, or the bridge is back. */
  refresh(): void {
    if (this._viewers > 0) {
      clearTimeout(this._timer);
      this._timer = undefined;
      this._poll();
    }
  }

  /** @throws MachineError */
  async history(tierS: TierS, fromMs: number, signal?: AbortSignal): Promise<DevicesHistory> {
    const query = URLExt.objectToQueryString({ tier: String(tierS), from: Math.max(0, Math.floor(fromMs)) });
    return this._get(`bridge/v1/devices/history${query}`, DevicesHistory, signal);
  }

  /**
   * Removes libtpu's lock file, which the bridge does only when its owner has ended.
   *
   * @returns null when it is removed, else why it stays
   */
  async removeLock(): Promise<string | null> {
    try {
      const answer = await this._request('bridge/v1/devices/lock', { method: 'DELETE' });
      if (answer.response.ok) return bodyAs(LibtpuLock, answer)?.state === 'none' ? null : ADDRESS_UNSURE;
      return messageOf(answer) ?? `The TPULab server answered with status ${answer.response.status}.`;
    } catch {
      return ADDRESS_UNSURE;
    } finally {
      this.refresh();
    }
  }

  dispose(): void {
    clearTimeout(this._timer);
    this._stopped.abort();
  }

  private _poll(): void {
    if (this._polling || this._timer !== undefined || this.isDisposed) return;
    this._polling = true;
    this._pages()
      .then(([page, holders]) => {
        if (!this.isDisposed) this._options.machine.setPage(page, holders);
      })
      // The connection shows its own state; the next turn tries again.
      .catch(() => undefined)
      .finally(() => {
        this._polling = false;
        if (this._viewers > 0 && !this.isDisposed) {
          this._timer = setTimeout(() => {
            this._timer = undefined;
            this._poll();
          }, PAGE_INTERVAL_MS);
        }
      });
  }

  /** Holders are requested only if there are chips. A bridge without this route still reports its chips. */
  private async _pages(): Promise<[DevicesPage, HoldersPage | null]> {
    const page = await this._get('bridge/v1/devices', DevicesPage);
    const holders =
      page.chips.length === 0
        ? null
        : await this._get('bridge/v1/devices/holders', HoldersPage).catch(() => null);
    return [page, holders];
  }

  private async _get<T>(path: string, schema: { readonly static: T }, signal?: AbortSignal): Promise<T> {
    const answer = await this._request(path, { signal });
    if (!answer.response.ok) throw new MachineError(`status ${answer.response.status}`);
    if (answer.body === undefined) throw new MachineError('no answer');
    const body = bodyAs(schema, answer);
    if (body === null) throw new MachineError(UNREADABLE);
    return body;
  }

  /** An answer with any status; throws MachineError when none arrives. */
  private async _request(
    route: string,
    { method, signal }: { readonly method?: string; readonly signal?: AbortSignal | undefined }
  ): Promise<BridgeAnswer> {
    return requestBridge({
      settings: this._options.settings(),
      route,
      ...(method !== undefined && { method }),
      timeoutMs: ANSWER_MS,
      signals: [this._stopped.signal, signal]
    }).catch((cause: unknown) => {
      const isUnknown = cause instanceof NoAnswer && cause.code === 'request.noAddress';
      throw new MachineError(isUnknown ? 'its address is not known' : 'no answer', { cause });
    });
  }

  private readonly _stopped = new AbortController();
  private _viewers = 0;
  private _polling = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
