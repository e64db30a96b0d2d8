/**
 * Lab's kernel manager over both backends: one stock manager each, because a connection takes the URL of its socket
 * from the settings of the manager that made it. What Lab sees of readiness and of lost connections is the Jupyter
 * server's alone; the bridge's troubles are in its backend state.
 */
import type { CommsOverSubshells } from '@jupyterlab/services';
import { BaseManager, type Kernel, KernelManager, type ServerConnection } from '@jupyterlab/services';
import type { Poll } from '@lumino/polling';
import { type ISignal, Signal } from '@lumino/signaling';
import type { Backends } from '../backends/backends.js';
import { BridgeKernelClient } from './bridge-kernel-client.js';
import type { Place } from './session-routes.js';

export interface ICompositeKernelManagerOptions {
  backends: Backends;
  /** Specs as the page knows them, for `kernel.spec`. */
  specClient: KernelManager.IOptions['kernelSpecAPIClient'];
  standby?: Poll.Standby | (() => boolean | Poll.Standby);
  /** When the polls of the bridge pause; the state of the Jupyter server says nothing about the bridge. */
  bridgeStandby?: Poll.Standby;
}

type ConnectOptions = Parameters<Kernel.IManager['connectTo']>[0];

export class CompositeKernelManager extends BaseManager implements Kernel.IManager {
  override readonly serverSettings: ServerConnection.ISettings;

  constructor(options: ICompositeKernelManagerOptions) {
    const { backends, specClient } = options;
    super({ serverSettings: backends.jupyter.serverSettings });
    this.serverSettings = backends.jupyter.serverSettings;
    this._backends = backends;
    const jupyter = new KernelManager({
      serverSettings: this.serverSettings,
      ...(specClient && { kernelSpecAPIClient: specClient }),
      ...(options.standby !== undefined && { standby: options.standby })
    });
    const bridge = new KernelManager({
      serverSettings: backends.bridge.liveSettings,
      kernelAPIClient: new BridgeKernelClient(backends.bridge, backends.routes),
      ...(specClient && { kernelSpecAPIClient: specClient }),
      standby: options.bridgeStandby ?? 'when-hidden'
    });
    this._managers = { jupyter, bridge };
    // The bridge's list may fail for long; its state says so, and Lab does not wait for it.
    bridge.ready.catch(() => undefined);
    jupyter.runningChanged.connect((_, models) => {
      backends.routes.kernelsListed('jupyter', models);
      this.emitRunning();
    });
    bridge.runningChanged.connect(() => this.emitRunning());
    jupyter.connectionFailure.connect((_, error) => this._connectionFailure.emit(error));
    jupyter.ready.then(
      () => backends.routes.kernelsListed('jupyter', [...jupyter.running()]),
      () => undefined
    );
    backends.bridge.recovered.connect(this.restoreBridge, this);
    backends.jupyter.reconnectRequested.connect(() => this.reconnect('jupyter'), this);
  }

  get isReady(): boolean {
    return this._managers.jupyter.isReady;
  }
  get ready(): Promise<void> {
    return this._managers.jupyter.ready;
  }
  get runningChanged(): ISignal<this, Kernel.IModel[]> {
    return this._runningChanged;
  }
  get connectionFailure(): ISignal<this, Error> {
    return this._connectionFailure;
  }
  get runningCount(): number {
    return this._managers.jupyter.runningCount + this._managers.bridge.runningCount;
  }
  get kernelInfoTimeout(): number {
    return this._managers.jupyter.kernelInfoTimeout;
  }
  set kernelInfoTimeout(value: number) {
    this.all.forEach(manager => (manager.kernelInfoTimeout = value));
  }
  get commsOverSubshells(): CommsOverSubshells {
    return this._managers.jupyter.commsOverSubshells;
  }
  set commsOverSubshells(value: CommsOverSubshells) {
    this.all.forEach(manager => (manager.commsOverSubshells = value));
  }

  running(): IterableIterator<Kernel.IModel> {
    return this.models().values();
  }

  connectTo(options: ConnectOptions): Kernel.IKernelConnection {
    const { id, name } = options.model;
    const place = this._backends.routes.kernelPlace(id) ?? this._backends.specPlace(name);
    this._backends.routes.learnKernel(place, options.model);
    // The settings are those of the backend's manager, whatever a session passes on.
    const connection = this._managers[place].connectTo(options);
    const connections = this._connections[place];
    connections.add(connection);
    connection.disposed.connect(() => connections.delete(connection));
    return connection;
  }

  async startNew(
    createOptions: Kernel.IKernelOptions = {},
    connectOptions: Omit<ConnectOptions, 'model'> = {}
  ): Promise<Kernel.IKernelConnection> {
    const place = createOptions.name === undefined ? 'jupyter' : this._backends.specPlace(createOptions.name);
    const connection = await this._managers[place].startNew(createOptions, connectOptions);
    this._backends.routes.learnKernel(place, { id: connection.id });
    this._connections[place].add(connection);
    connection.disposed.connect(() => this._connections[place].delete(connection));
    return connection;
  }

  async shutdown(id: string): Promise<void> {
    await this._managers[this._backends.routes.kernelPlace(id) ?? 'jupyter'].shutdown(id);
  }

  async shutdownAll(): Promise<void> {
    // An absent bridge has nothing that could be shut down now, and must not keep the others alive.
    const places: Place[] = this._backends.bridge.state === 'ok' ? ['jupyter', 'bridge'] : ['jupyter'];
    const results = await Promise.allSettled(places.map(place => this._managers[place].shutdownAll()));
    const failed = results.find(result => result.status === 'rejected');
    if (failed) {
      throw failed.reason;
    }
  }

  async refreshRunning(): Promise<void> {
    await Promise.all([this._managers.jupyter.refreshRunning(), this.refreshBridge()]);
  }

  async findById(id: string): Promise<Kernel.IModel | undefined> {
    const known = this.models().find(model => model.id === id);
    if (known === undefined) {
      await this.refreshRunning();
    }
    return known ?? this.models().find(model => model.id === id);
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.all.forEach(manager => manager.dispose());
    this._backends.bridge.recovered.disconnect(this.restoreBridge, this);
    super.dispose();
  }

  /** Never rejects: what is wrong with the bridge is in its backend state. */
  private async refreshBridge(): Promise<void> {
    if (this._backends.bridge.state === 'ok') {
      await this._managers.bridge.refreshRunning().catch(() => undefined);
    }
  }

  private restoreBridge(): void {
    void this.refreshBridge().finally(() => this.reconnect('bridge'));
  }

  /** At once, instead of at the end of the pause (up to minutes) that a connection is in. */
  private reconnect(place: Place): void {
    for (const connection of this._connections[place]) {
      if (
        !connection.isDisposed &&
        connection.connectionStatus !== 'connected' &&
        connection.status !== 'dead'
      ) {
        // A connection that fails again goes on trying by itself.
        connection.reconnect().catch(() => undefined);
      }
    }
  }

  private models(): Kernel.IModel[] {
    return this.all.flatMap(manager => [...manager.running()]);
  }

  private emitRunning(): void {
    if (!this.isDisposed) {
      this._runningChanged.emit(this.models());
    }
  }

  private get all(): readonly KernelManager[] {
    return [this._managers.jupyter, this._managers.bridge];
  }

  private readonly _backends: Backends;
  private readonly _managers: Readonly<Record<Place, KernelManager>>;
  private readonly _connections: Readonly<Record<Place, Set<Kernel.IKernelConnection>>> = {
    jupyter: new Set(),
    bridge: new Set()
  };
  private readonly _runningChanged = new Signal<this, Kernel.IModel[]>(this);
  private readonly _connectionFailure = new Signal<this, Error>(this);
}
