/**
 * Lab's kernel manager over all backends: one stock manager each, because a connection takes the URL of its socket
 * from the settings of the manager that created it. Lab sees readiness and lost connections of the Jupyter server
 * alone; problems of bridge and remotes are in their backend states. Kernels of an unreachable backend stay listed.
 */
import type { CommsOverSubshells } from '@jupyterlab/services';
import { BaseManager, type Kernel, KernelManager, type ServerConnection } from '@jupyterlab/services';
import type { Poll } from '@lumino/polling';
import { Signal } from '@lumino/signaling';
import { unknownPlace } from '../backends/backend-error.js';
import type { GatewayBackend } from '../backends/gateway-backend.js';
import { BridgeKernelClient } from './bridge-kernel-client.js';
import type { Place } from '../backends/spec-names.js';
import type { IBridgeBackends } from '../backends/tokens.js';

interface ICompositeKernelManagerOptions {
  backends: IBridgeBackends;
  /** Specs as the page knows them, for `kernel.spec`. */
  specClient: KernelManager.IOptions['kernelSpecAPIClient'];
  standby?: Poll.Standby | (() => boolean | Poll.Standby);
  /** When the polls of gateways pause; the state of the Jupyter server is irrelevant for them. */
  bridgeStandby?: Poll.Standby;
}

type ConnectOptions = Parameters<Kernel.IManager['connectTo']>[0];

export class CompositeKernelManager extends BaseManager implements Kernel.IManager {
  override readonly serverSettings: ServerConnection.ISettings;

  constructor(options: ICompositeKernelManagerOptions) {
    const { backends, specClient } = options;
    super({ serverSettings: backends.serverSettings });
    this.serverSettings = backends.serverSettings;
    this._backends = backends;
    this._options = options;
    if (backends.jupyter !== null) {
      const jupyter = new KernelManager({
        serverSettings: this.serverSettings,
        ...(specClient && { kernelSpecAPIClient: specClient }),
        ...(options.standby !== undefined && { standby: options.standby })
      });
      jupyter.runningChanged.connect((_, models) => {
        backends.routes.kernelsListed('jupyter', models);
        this.emitRunning();
      });
      jupyter.connectionFailure.connect((_, error) => this.connectionFailure.emit(error));
      jupyter.ready.then(
        () => backends.routes.kernelsListed('jupyter', [...jupyter.running()]),
        () => undefined
      );
      this._managers.set('jupyter', jupyter);
      backends.jupyter.reconnectRequested.connect(() => this.reconnect('jupyter'), this);
    }
    backends.gateways.forEach(gateway => this.addGateway(gateway));
    backends.gatewayAdded.connect(this.onGatewayAdded, this);
    backends.gatewayRemoved.connect(this.onGatewayRemoved, this);
  }

  get isReady(): boolean {
    return this._managers.get('jupyter')?.isReady ?? true;
  }
  get ready(): Promise<void> {
    return this._managers.get('jupyter')?.ready ?? Promise.resolve();
  }
  readonly runningChanged = new Signal<this, Kernel.IModel[]>(this);

  readonly connectionFailure = new Signal<this, Error>(this);

  get runningCount(): number {
    return this.all.reduce((count, manager) => count + manager.runningCount, 0);
  }
  get kernelInfoTimeout(): number {
    return this.manager('bridge').kernelInfoTimeout;
  }
  set kernelInfoTimeout(value: number) {
    this.all.forEach(manager => (manager.kernelInfoTimeout = value));
  }
  get commsOverSubshells(): CommsOverSubshells {
    return this.manager('bridge').commsOverSubshells;
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
    // The settings are the backend manager's, whatever a session passes on.
    return this.watched(place, this.manager(place).connectTo(options));
  }

  async startNew(
    createOptions: Kernel.IKernelOptions = {},
    connectOptions: Omit<ConnectOptions, 'model'> = {}
  ): Promise<Kernel.IKernelConnection> {
    const place = createOptions.name === undefined ? 'jupyter' : this._backends.specPlace(createOptions.name);
    const connection = await this.manager(place).startNew(createOptions, connectOptions);
    this._backends.routes.learnKernel(place, { id: connection.id });
    return this.watched(place, connection);
  }

  async shutdown(id: string): Promise<void> {
    await this.manager(this._backends.routes.kernelPlace(id) ?? 'jupyter').shutdown(id);
  }

  async shutdownAll(): Promise<void> {
    // An unreachable gateway has no kernels to shut down now, and must not keep the others alive.
    const present = this._backends.backends.filter(({ id, state }) => id === 'jupyter' || state === 'ok');
    const managers = present.map(({ id }) => this.manager(id));
    const results = await Promise.allSettled(managers.map(manager => manager.shutdownAll()));
    const failed = results.find(result => result.status === 'rejected');
    if (failed) throw failed.reason;
  }

  async refreshRunning(): Promise<void> {
    const gateways = this._backends.gateways.map(gateway => this.refreshGateway(gateway));
    await Promise.all([this._managers.get('jupyter')?.refreshRunning(), ...gateways]);
  }

  async findById(id: string): Promise<Kernel.IModel | undefined> {
    const known = this.models().find(model => model.id === id);
    if (known === undefined) await this.refreshRunning();
    return known ?? this.models().find(model => model.id === id);
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this._backends.gatewayAdded.disconnect(this.onGatewayAdded, this);
    this._backends.gatewayRemoved.disconnect(this.onGatewayRemoved, this);
    this.all.forEach(manager => manager.dispose());
    super.dispose();
  }

  private addGateway(gateway: GatewayBackend): void {
    const { specClient, bridgeStandby } = this._options;
    const manager = new KernelManager({
      serverSettings: gateway.liveSettings,
      kernelAPIClient: new BridgeKernelClient(gateway, this._backends.routes),
      ...(specClient && { kernelSpecAPIClient: specClient }),
      standby: bridgeStandby ?? 'when-hidden'
    });
    const [first] = this.all;
    if (first) {
      manager.kernelInfoTimeout = first.kernelInfoTimeout;
      manager.commsOverSubshells = first.commsOverSubshells;
    }
    // Its list may fail for long; the state of the backend reports it, and Lab does not wait for it.
    manager.ready.catch(() => undefined);
    manager.runningChanged.connect(() => this.emitRunning());
    this._managers.set(gateway.id, manager);
    gateway.recovered.connect(this.restore, this);
  }

  private onGatewayAdded(_: unknown, gateway: GatewayBackend): void {
    this.addGateway(gateway);
  }

  private onGatewayRemoved(_: unknown, gateway: GatewayBackend): void {
    gateway.recovered.disconnect(this.restore, this);
    this._managers.get(gateway.id)?.dispose();
    this._managers.delete(gateway.id);
    this.emitRunning();
  }

  private manager(place: Place): KernelManager {
    const manager = this._managers.get(place);
    if (manager === undefined) throw unknownPlace(place);
    return manager;
  }

  private watched(place: Place, connection: Kernel.IKernelConnection): Kernel.IKernelConnection {
    const connections = this._connections.get(place) ?? new Set();
    this._connections.set(place, connections);
    connections.add(connection);
    connection.disposed.connect(() => connections.delete(connection));
    return connection;
  }

  /** Never rejects: its backend state has the error. */
  private async refreshGateway(gateway: GatewayBackend): Promise<void> {
    if (gateway.state === 'ok') {
      await this._managers
        .get(gateway.id)
        ?.refreshRunning()
        .catch(() => undefined);
    }
  }

  private restore(gateway: GatewayBackend): void {
    // Connections first: a list takes another round trip.
    this.reconnect(gateway.id);
    void this.refreshGateway(gateway);
  }

  /** Immediately, instead of at the end of the connection's present pause (up to minutes). */
  private reconnect(place: Place): void {
    for (const connection of this._connections.get(place) ?? []) {
      if (
        !connection.isDisposed &&
        connection.connectionStatus !== 'connected' &&
        connection.status !== 'dead'
      ) {
        // A connection that fails again continues to try automatically.
        connection.reconnect().catch(() => undefined);
      }
    }
  }

  private models(): Kernel.IModel[] {
    return this.all.flatMap(manager => [...manager.running()]);
  }

  private emitRunning(): void {
    if (!this.isDisposed) this.runningChanged.emit(this.models());
  }

  private get all(): readonly KernelManager[] {
    return [...this._managers.values()];
  }

  private readonly _backends: IBridgeBackends;
  private readonly _options: ICompositeKernelManagerOptions;
  private readonly _managers = new Map<Place, KernelManager>();
  private readonly _connections = new Map<Place, Set<Kernel.IKernelConnection>>();
}
