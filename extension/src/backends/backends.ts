/** The kernel servers of this page, and the known place of each kernel. */
import type { ServerConnection } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { SessionRoutes } from './session-routes.js';
import type { Place } from './spec-names.js';
import { remotePlace, splitSpecName } from './spec-names.js';
import { Remotes } from './remotes-model.js';
import { SyncFolders } from './sync-folders.js';
import type { IBridgeBackends } from './tokens.js';
import type { IBackend } from '../tokens.js';
import type { BridgeBackend } from './bridge-backend.js';
import type { GatewayBackend, IGatewayBackendOptions } from './gateway-backend.js';
import type { JupyterBackend } from './jupyter-backend.js';
import type { KernelSockets } from './numbered-socket.js';
import { RemoteBackend } from './remote-backend.js';

interface IBackendsOptions {
  readonly storage?: Pick<Storage, 'getItem' | 'setItem'> | null;
  readonly remote?: IGatewayBackendOptions;
}

export class Backends implements IBridgeBackends, IDisposable {
  /** Shared by the kernel and the session manager. */
  readonly routes = new SessionRoutes();
  readonly remotes: Remotes;
  readonly syncFolders: SyncFolders;

  constructor(
    readonly jupyter: JupyterBackend | null,
    readonly bridge: BridgeBackend,
    private readonly options: IBackendsOptions = {}
  ) {
    this.remotes = new Remotes(bridge, options.storage ?? null);
    this.syncFolders = new SyncFolders(options.storage ?? null);
    jupyter?.changed.connect(this.forward, this);
    bridge.changed.connect(this.forward, this);
    bridge.changed.connect(this.checkRemotes, this);
    this.remotes.changed.connect((_, name) => this.remoteChanged(name));
    this.remotes.expected.forEach(name => this.addRemote(name));
  }

  get backends(): readonly IBackend[] {
    return this.jupyter === null ? this.gateways : [this.jupyter, ...this.gateways];
  }

  /** The bridge on this machine, and the remotes behind it. */
  get gateways(): readonly GatewayBackend[] {
    return [this.bridge, ...this._remotes.values()];
  }

  get remoteBackends(): readonly RemoteBackend[] {
    return [...this._remotes.values()];
  }

  get serverSettings(): ServerConnection.ISettings {
    return this.jupyter?.serverSettings ?? this.bridge.liveSettings;
  }

  readonly changed = new Signal<this, IBackend>(this);

  /** A remote has become known; remotes known from the start are in `gateways`. */
  readonly gatewayAdded = new Signal<this, GatewayBackend>(this);

  /** Emitted while the backend still works; it is disposed afterwards. */
  readonly gatewayRemoved = new Signal<this, GatewayBackend>(this);

  get isDisposed(): boolean {
    return this.bridge.isDisposed;
  }

  /** False once a part of the extension has failed: then the page has only the Jupyter server's kernels. */
  get isUsable(): boolean {
    return this._usable;
  }

  disable(cause: unknown): void {
    this._usable = false;
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `TPULab could not take its place in JupyterLab, so this page has no bridge kernels: ${reason}`;
    this.gateways.forEach(gateway => gateway.disable(message));
  }

  gateway(place: Place): GatewayBackend | null {
    return this.gateways.find(({ id }) => id === place) ?? null;
  }

  backendOf(kernelId: string): IBackend | null {
    const place = this.routes.kernelPlace(kernelId);
    return this.backends.find(({ id }) => id === place) ?? null;
  }

  backendOfSpec(name: string): IBackend | null {
    const place = this.specPlace(name);
    return this.backends.find(({ id }) => id === place) ?? null;
  }

  isBridgeSpec(name: string): boolean {
    return this.specPlace(name) !== 'jupyter';
  }

  /** Where a kernelspec name starts a kernel. The bridge's own list decides; a `tpulab-*` spec may also be installed by hand. */
  specPlace(name: string): Place {
    const { place } = splitSpecName(name);
    const isOwn = this._specNames.get('jupyter')?.has(name) === true;
    return isOwn && this._specNames.get(place)?.has(name) !== true ? 'jupyter' : place;
  }

  specsListed(place: Place, names: Iterable<string>): void {
    this._specNames.set(place, new Set(names));
  }

  /** The sockets of a kernel's connections; null for a kernel of the page's own server. */
  socketsOf(kernelId: string, specName: string): KernelSockets | null {
    return this.gateway(this.routes.kernelPlace(kernelId) ?? this.specPlace(specName))?.sockets ?? null;
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.remotes.dispose();
      this._remotes.forEach(remote => remote.dispose());
      this.bridge.dispose();
      Signal.clearData(this);
    }
  }

  private addRemote(name: string): void {
    const backend = new RemoteBackend({
      ...this.options.remote,
      bridge: this.bridge,
      name,
      remote: () => this.remotes.get(name),
      connect: () => void this.remotes.api.connect(name).catch(() => this.bridge.suspect())
    });
    this._remotes.set(name, backend);
    backend.changed.connect(this.forward, this);
    if (!this._usable) return;
    backend.start();
    this.gatewayAdded.emit(backend);
    this.changed.emit(backend);
  }

  private removeRemote(name: string): void {
    const backend = this._remotes.get(name);
    if (backend) {
      this.gatewayRemoved.emit(backend);
      this._remotes.delete(name);
      this.routes.forget(remotePlace(name));
      this.changed.emit(backend);
      backend.dispose();
    }
  }

  /** With null: the hub has reported all its remotes. */
  private remoteChanged(name: string | null): void {
    if (name === null) {
      const known = new Set(this.remotes.all.map(remote => remote.name));
      [...this._remotes.keys()].filter(each => !known.has(each)).forEach(each => this.removeRemote(each));
    } else if (this.remotes.get(name) === null) {
      this.removeRemote(name);
    } else if (this._remotes.has(name)) {
      this._remotes.get(name)?.remoteChanged();
    } else {
      this.addRemote(name);
    }
  }

  /** The addresses to try depend on the hub's address and state. */
  private checkRemotes(): void {
    if (this.bridge.state === 'ok') this._remotes.forEach(remote => remote.suspect());
  }

  private forward(backend: IBackend): void {
    this.changed.emit(backend);
  }

  private _usable = true;
  private readonly _remotes = new Map<string, RemoteBackend>();
  private readonly _specNames = new Map<Place, ReadonlySet<string>>();
}
