/** Asks a bridge for its chips and for the history of its machine, while somebody looks. */
import { URLExt } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { DevicesHistory, DevicesPage } from '@tpulab/protocol';
import { askBridge, bodyAs, NoAnswer } from '../backends/bridge-request.js';
import type { MachineTelemetry } from './machine-telemetry.js';

/** Owners of chips come and go with kernels; looking them up costs the bridge some milliseconds. */
export const PAGE_INTERVAL_MS = 10_000;
const ANSWER_MS = 10_000;

export type TierS = 1 | 10 | 60;

/** The bridge did not answer as it should. `code` is stable; the message says what to do. */
export class MachineError extends Error {
  readonly code = 'machine.unavailable';

  constructor(what: string, options?: ErrorOptions) {
    super(`The bridge did not tell about its machine (${what}); it is asked again.`, options);
    this.name = 'MachineError';
  }
}

export interface MachineSourceOptions {
  readonly machine: MachineTelemetry;
  /** How the bridge is reached now; null while that is not known. */
  readonly settings: () => ServerConnection.ISettings | null;
}

export class MachineSource implements IDisposable {
  constructor(private readonly _options: MachineSourceOptions) {}

  get isDisposed(): boolean {
    return this._stopped.signal.aborted;
  }

  /** Keeps `machine.page` fresh until disposed. Several may look at once; the bridge is asked for all of them together. */
  look(): IDisposable {
    this._lookers += 1;
    this._ask();
    return new DisposableDelegate(() => {
      this._lookers -= 1;
      if (this._lookers === 0) {
        clearTimeout(this._timer);
        this._timer = undefined;
      }
    });
  }

  /** Asks now, for somebody who looks: the address has changed, or the bridge is back. */
  refresh(): void {
    if (this._lookers > 0) {
      clearTimeout(this._timer);
      this._timer = undefined;
      this._ask();
    }
  }

  /** @throws MachineError */
  async history(tierS: TierS, fromMs: number, signal?: AbortSignal): Promise<DevicesHistory> {
    const query = URLExt.objectToQueryString({ tier: String(tierS), from: Math.max(0, Math.floor(fromMs)) });
    return this._get(`bridge/v1/devices/history${query}`, DevicesHistory, signal);
  }

  dispose(): void {
    clearTimeout(this._timer);
    this._stopped.abort();
  }

  private _ask(): void {
    if (this._asking || this._timer !== undefined || this.isDisposed) {
      return;
    }
    this._asking = true;
    this._get('bridge/v1/devices', DevicesPage)
      .then(page => {
        if (!this.isDisposed) {
          this._options.machine.setPage(page);
        }
      })
      // The connection shows its own state; the next turn asks again.
      .catch(() => undefined)
      .finally(() => {
        this._asking = false;
        if (this._lookers > 0 && !this.isDisposed) {
          this._timer = setTimeout(() => {
            this._timer = undefined;
            this._ask();
          }, PAGE_INTERVAL_MS);
        }
      });
  }

  private async _get<T>(path: string, schema: { readonly static: T }, signal?: AbortSignal): Promise<T> {
    const answer = await askBridge({
      settings: this._options.settings(),
      route: path,
      timeoutMs: ANSWER_MS,
      signals: [this._stopped.signal, signal]
    }).catch((cause: unknown) => {
      const isUnknown = cause instanceof NoAnswer && cause.code === 'request.noAddress';
      throw new MachineError(isUnknown ? 'its address is not known' : 'no answer', { cause });
    });
    if (!answer.response.ok) {
      throw new MachineError(`status ${answer.response.status}`);
    }
    if (answer.body === undefined) {
      throw new MachineError('no answer');
    }
    const body = bodyAs(schema, answer);
    if (body === null) {
      throw new MachineError('an answer that this page cannot read; update page and bridge');
    }
    return body;
  }

  private readonly _stopped = new AbortController();
  private _lookers = 0;
  private _asking = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
