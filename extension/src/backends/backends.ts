/** The kernel servers behind this page, and what is known of which kernel lives where. */
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import { type Place, SessionRoutes } from '../kernels/session-routes.js';
import { bridgeSpecName } from '../kernels/spec-names.js';
import type { IBackend, IBridgeBackends } from '../tokens.js';
import type { BridgeBackend } from './bridge-backend.js';
import type { JupyterBackend } from './jupyter-backend.js';

export class Backends implements IBridgeBackends, IDisposable {
  readonly backends: readonly [JupyterBackend, BridgeBackend];
  /** Shared by the kernel and the session manager. */
  readonly routes = new SessionRoutes();

  constructor(
    readonly jupyter: JupyterBackend,
    readonly bridge: BridgeBackend
  ) {
    this.backends = [jupyter, bridge];
    jupyter.changed.connect(this.forward, this);
    bridge.changed.connect(this.forward, this);
  }

  get changed(): ISignal<this, IBackend> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this.bridge.isDisposed;
  }

  /** False once a part of the extension has failed: then the page has the kernels of the Jupyter server only. */
  get isUsable(): boolean {
    return this._usable;
  }

  disable(cause: unknown): void {
    this._usable = false;
    const reason = cause instanceof Error ? cause.message : String(cause);
    this.bridge.disable(
      `TPULab could not take its place in JupyterLab, so this page has no bridge kernels: ${reason}`
    );
  }

  backendOf(kernelId: string): IBackend | null {
    const place = this.routes.kernelPlace(kernelId);
    return place === null ? null : this[place];
  }

  isBridgeSpec(name: string): boolean {
    return this.specPlace(name) === 'bridge';
  }

  /** Where a kernelspec name starts a kernel. What the bridge lists is its own; a `tpulab-*` spec may also be installed by hand. */
  specPlace(name: string): Place {
    if (bridgeSpecName(name) === null) {
      return 'jupyter';
    }
    return this._specNames.jupyter.has(name) && !this._specNames.bridge.has(name) ? 'jupyter' : 'bridge';
  }

  specsListed(place: Place, names: Iterable<string>): void {
    this._specNames[place] = new Set(names);
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.bridge.dispose();
      Signal.clearData(this);
    }
  }

  private forward(backend: IBackend): void {
    this._changed.emit(backend);
  }

  private _usable = true;
  private readonly _specNames: Record<Place, ReadonlySet<string>> = { jupyter: new Set(), bridge: new Set() };
  private readonly _changed = new Signal<this, IBackend>(this);
}
