/**
 * A gateway as one backend, on this machine or behind it: finds its address, monitors whether it serves, and retries with a
 * countdown. While it serves nothing is polled here; a failing request of any caller (`suspect`) starts a probe.
 */
import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import type { IDisposable } from '@lumino/disposable';
import type { BackendState, IBackend, IBackendError } from '../tokens.js';
import { BackendError } from './backend-error.js';
import { fixedBridgeSettings, type IBridgeAddress, liveBridgeSettings } from './bridge-settings.js';
import type { KernelSockets } from './numbered-socket.js';
import { requestHealth, requestProof, type IProbeOptions } from './probe.js';
import { retryDelayMs } from '../platform/backoff.js';
import { until } from '../platform/wait.js';

export interface IGatewayBackendOptions {
  readonly fetch?: typeof fetch;
  readonly probeTimeoutMs?: number;
  readonly readTimeoutMs?: number;
  readonly writeTimeoutMs?: number;
  /** Upper bound of the wait between attempts. */
  readonly longestRetryMs?: number;
}

/** Why no request can be sent, as the hub reports it. */
export interface IRefusal {
  readonly error: BackendError;
  readonly state: 'starting' | 'down';
  /** Unix milliseconds of the attempt that another party makes; null when none is due. */
  readonly retryAt: number | null;
}

/** Finds the addresses of a gateway. */
interface IGatewayFinder {
  /** Addresses to try, best first. Throws `BackendError` when none are known. */
  candidates(options: IProbeOptions): Promise<readonly IBridgeAddress[]>;
  /** Not null: a request would be useless now; `checkNow` is called when that has changed. */
  refusal(): IRefusal | null;
}

/** Short interval while the bridge reports that it is starting. */
const STARTING_RETRY_MS = 1_000;
/** After these errors the identity of the server is uncertain. */
const UNPROVEN_ERRORS: ReadonlySet<string> = new Set([
  'bridge.unreachable',
  'bridge.timeout',
  'bridge.notABridge'
]);

export abstract class GatewayBackend implements IBackend, IDisposable {
  /** For managers and connections: always the present address, every request with a deadline. */
  readonly liveSettings: ServerConnection.ISettings;
  readonly sockets: KernelSockets;

  constructor(
    readonly id: string,
    readonly label: string,
    private readonly finder: IGatewayFinder,
    private readonly options: IGatewayBackendOptions
  ) {
    const settings = liveBridgeSettings({
      address: () => this.trusted(),
      suspect: () => this.suspect(),
      lost: () => this.requireProof(),
      ...(options.fetch && { fetch: options.fetch }),
      ...(options.readTimeoutMs !== undefined && { readTimeoutMs: options.readTimeoutMs }),
      ...(options.writeTimeoutMs !== undefined && { writeTimeoutMs: options.writeTimeoutMs })
    });
    this.liveSettings = settings.settings;
    this.sockets = settings.sockets;
  }

  get state(): BackendState {
    return this._state;
  }
  get lastError(): IBackendError | null {
    return this._lastError;
  }
  get nextRetryAt(): number | null {
    return this._nextRetryAt;
  }
  /** Null also while the hub reports that the remote is unreachable. */
  get serverSettings(): ServerConnection.ISettings | null {
    return this._isRefused || this.trusted() === null ? null : this._settings;
  }
  /** The present address; null while unknown. */
  get address(): IBridgeAddress | null {
    return this._isRefused ? null : this._address;
  }
  readonly changed = new Signal<this, void>(this);

  /** Emitted when the bridge serves again (or for the first time). */
  readonly recovered = new Signal<this, void>(this);

  get isDisposed(): boolean {
    return this._abort.signal.aborted;
  }

  /** Starts monitoring; returns immediately. */
  start(): void {
    if (!this._started) {
      this._started = true;
      void this.watch();
    }
  }

  /** Permanently: another part of the extension failed, so bridge kernels cannot be offered in this page. */
  disable(message: string): void {
    this._disabled = new BackendError('bridge.disabled', message);
    this.update({ state: 'down', lastError: this._disabled, nextRetryAt: null });
    this.wake();
  }

  suspect(): void {
    if (this._state === 'ok') this.wake();
  }

  /** There was no answer: before the next request, the server there has to prove its identity. */
  private requireProof(): void {
    this._needsProof = this._address?.proof !== undefined;
    this.suspect();
  }

  private trusted(): IBridgeAddress | null {
    this._wasRefused ||= this._needsProof;
    return this._needsProof ? null : this._address;
  }

  /** The displayed data has changed, though the state has not. */
  protected changedState(): void {
    if (!this.isDisposed) this.changed.emit();
  }

  /** The finder's refusal or addresses may have changed. */
  checkNow(): void {
    this._attempt = 0;
    this.wake();
  }

  reconnectNow(): void {
    if (this._state === 'ok') this.recovered.emit();
    this._attempt = 0;
    this.wake();
  }

  /** Resolves with true once it serves, with false when `timeoutMs` have passed or the attempt has failed. */
  async settled(timeoutMs: number): Promise<boolean> {
    return until([this.changed], () => this._state !== 'starting', timeoutMs).then(
      () => this._state === 'ok'
    );
  }

  /** Resolves once the bridge serves; rejects with the error when it does not within `timeoutMs`. */
  async serving(timeoutMs: number): Promise<void> {
    await until([this.changed], () => this._state === 'ok' || this.isOver(), timeoutMs);
    if (this._state !== 'ok') {
      const why = this._lastError?.message ?? 'It has not answered yet.';
      throw new BackendError('bridge.notReady', `${this.label} is not ready. ${why}`);
    }
  }

  dispose(): void {
    if (this.isDisposed) return;
    this._abort.abort();
    this.wake();
    this.changed.emit();
    Signal.clearData(this);
  }

  private async watch(): Promise<void> {
    while (!this.isOver()) {
      this._retryRequested = false;
      const refusal = this.finder.refusal();
      if (refusal !== null) {
        const { code, message } = refusal.error;
        this._isRefused = true;
        const { state, retryAt } = refusal;
        this.update({ state, lastError: { code, message }, nextRetryAt: retryAt });
        await this.wait(null);
        continue;
      }
      const error = await this.probe();
      if (this.isOver()) return;
      if (this.finder.refusal() !== null) continue;
      this._isRefused = false;
      if (error === null) {
        this._attempt = 0;
        // Callers refused in the meantime wait for a signal, as after an outage.
        const wasServing = this._state === 'ok' && !this._wasRefused;
        this._wasRefused = false;
        this.update({ state: 'ok', lastError: null, nextRetryAt: null });
        if (!wasServing) this.recovered.emit();
        await this.wait(null);
        continue;
      }
      const starting = error.code === 'bridge.starting';
      const delayMs = starting
        ? Math.min(STARTING_RETRY_MS, this.longestRetryMs)
        : retryDelayMs(this._attempt, this.longestRetryMs);
      this._attempt = starting ? 0 : this._attempt + 1;
      this.update({
        state:
          error.code === 'bridge.unauthorized' ? 'auth' : starting && !this._hasServed ? 'starting' : 'down',
        lastError: { code: error.code, message: error.message },
        nextRetryAt: Date.now() + delayMs
      });
      await this.wait(delayMs);
    }
  }

  /** One attempt; null means that the bridge serves. */
  private async probe(): Promise<BackendError | null> {
    const options: IProbeOptions = {
      timeoutMs: this.options.probeTimeoutMs ?? 5_000,
      signal: this._abort.signal,
      ...(this.options.fetch && { fetch: this.options.fetch })
    };
    // A bridge that serves at the known address needs no request to the Jupyter server, which may be unreachable itself.
    const known = this._address;
    const cachedError = known === null ? null : await this.check([known], options);
    this._needsProof ||= known?.proof !== undefined && UNPROVEN_ERRORS.has(cachedError?.code ?? '');
    if (known !== null && cachedError === null) return null;
    try {
      return await this.check(await this.finder.candidates(options), options);
    } catch (error) {
      const failure = asBackendError(error);
      // Without the Jupyter server, the bridge's own error is more informative.
      return failure.code === 'bridge.addressUnreachable' && cachedError !== null ? cachedError : failure;
    }
  }

  private async check(
    candidates: readonly IBridgeAddress[],
    options: IProbeOptions
  ): Promise<BackendError | null> {
    let worst: BackendError | null = null;
    for (const candidate of candidates) {
      try {
        await requestProof(candidate, options);
        await requestHealth(candidate, options);
        this.adopt(candidate);
        return null;
      } catch (error) {
        const failure = asBackendError(error);
        if (failure.code === 'bridge.starting') {
          this.adopt(candidate);
          return failure;
        }
        // "Refused our token" under one name is more informative than "not reachable" under the other.
        if (worst === null || worst.code === 'bridge.unreachable') worst = failure;
      }
    }
    return worst;
  }

  private adopt(address: IBridgeAddress): void {
    this._needsProof = false;
    const { url, token, proof } = this._address ?? {};
    if (url === address.url && token === address.token && proof?.key === address.proof?.key) return;
    this._address = address;
    this._settings = fixedBridgeSettings(address, this.options.fetch);
  }

  private update(next: {
    state: BackendState;
    lastError: IBackendError | null;
    nextRetryAt: number | null;
  }): void {
    if (this.isDisposed) return;
    this._state = next.state;
    this._hasServed ||= next.state === 'ok';
    this._lastError = next.lastError;
    this._nextRetryAt = next.nextRetryAt;
    this.changed.emit();
  }

  /** Waits for a wake-up, at most `timeoutMs` (null: no limit). A wake-up since the start of the last attempt counts. */
  private wait(timeoutMs: number | null): Promise<void> {
    if (this._retryRequested) return Promise.resolve();
    return new Promise(resolve => {
      const timer = timeoutMs === null ? null : setTimeout(() => this._wake?.(), timeoutMs);
      this._wake = () => {
        if (timer !== null) clearTimeout(timer);
        this._wake = null;
        resolve();
      };
    });
  }

  private wake(): void {
    this._retryRequested = true;
    this._wake?.();
  }

  private isOver(): boolean {
    return this.isDisposed || this._disabled !== null;
  }

  private get longestRetryMs(): number {
    return this.options.longestRetryMs ?? 30_000;
  }

  private _isRefused = false;
  private _needsProof = false;
  private _wasRefused = false;
  private _state: BackendState = 'starting';
  private _lastError: IBackendError | null = null;
  private _nextRetryAt: number | null = null;
  private _settings: ServerConnection.ISettings | null = null;
  private _address: IBridgeAddress | null = null;
  private _disabled: BackendError | null = null;
  private _hasServed = false;
  private _started = false;
  private _attempt = 0;
  /** Ends the wait, if any. */
  private _wake: (() => void) | null = null;
  /** A new attempt was requested during the present one. */
  private _retryRequested = false;
  private readonly _abort = new AbortController();
}

function asBackendError(error: unknown): BackendError {
  return error instanceof BackendError
    ? error
    : new BackendError('bridge.unreachable', 'The TPULab server cannot be reached.', { cause: error });
}
