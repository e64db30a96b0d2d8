/** Lab's own session and kernelspec managers, with the composite clients and a failure signal that emits. */
import { KernelSpecManager, SessionManager } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { CompositeSessionClient } from './session-client.js';
import type { CompositeSpecClient } from './spec-client.js';

type SessionOptions = Omit<SessionManager.IOptions, 'sessionAPIClient'> & {
  sessionAPIClient: CompositeSessionClient;
};
type SpecOptions = Omit<KernelSpecManager.IOptions, 'kernelSpecAPIClient'> & {
  kernelSpecAPIClient: CompositeSpecClient;
};

export class CompositeSessionManager extends SessionManager {
  constructor(options: SessionOptions) {
    super(options);
    options.sessionAPIClient.connectionFailure.connect(this.fail, this);
  }

  /** The client retains the sessions of the other backend when one fails, so the stock manager never sees the failure. */
  override get connectionFailure(): ISignal<this, Error> {
    return this._failure;
  }

  private fail(_: unknown, error: Error): void {
    this._failure.emit(error);
  }

  private readonly _failure = new Signal<this, Error>(this);
}

/** How soon a page shows an environment that was created elsewhere. */
const POLL_MS = 5_000;

export class CompositeSpecManager extends KernelSpecManager {
  constructor(options: SpecOptions) {
    super(options);
    const checks = setInterval(() => {
      if (typeof document !== 'undefined' && !document.hidden) void options.kernelSpecAPIClient.poll();
    }, POLL_MS);
    this.disposed.connect(() => clearInterval(checks));
    options.kernelSpecAPIClient.connectionFailure.connect(this.fail, this);
    options.kernelSpecAPIClient.gatewaySpecsChanged.connect(this.refresh, this);
  }

  /** The stock manager declares this signal and never emits it. */
  override get connectionFailure(): ISignal<this, Error> {
    return this._failure;
  }

  /**
   * Resolves with a list that was requested after the call. The stock manager joins a list in flight, which has skipped a gateway that
   * began to serve in the meantime, and requests none while the page is hidden; the next poll is a minute away.
   */
  override async refreshSpecs(): Promise<void> {
    const before = this._lists;
    await super.refreshSpecs();
    if (this._lists === before && !this.isDisposed) void this.requestSpecs();
    await this._latest;
  }

  protected override requestSpecs(): Promise<void> {
    this._lists += 1;
    this._latest = super.requestSpecs();
    return this._latest;
  }

  private fail(_: unknown, error: Error): void {
    this._failure.emit(error);
  }

  private refresh(): void {
    if (!this.isDisposed) {
      // A failure is in the backend's state, and the next poll tries again.
      this.refreshSpecs().catch(() => undefined);
    }
  }

  // The stock constructor requests the first list before these are set, which is harmless: there was no call yet.
  private _lists = 0;
  private _latest = Promise.resolve();
  private readonly _failure = new Signal<this, Error>(this);
}
