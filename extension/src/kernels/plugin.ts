/**
 * Gives Lab managers that show the bridge's kernels besides the server's own. The stock plugins stay enabled, and each
 * body here falls back to the stock manager: even if ours fail, Lab has kernels.
 */
import {
  IConnectionStatus,
  IKernelManager,
  IKernelSpecManager,
  IServerSettings,
  ISessionManager,
  type Kernel,
  KernelManager,
  type KernelSpec,
  KernelSpecManager,
  type ServerConnection,
  type ServiceManagerPlugin,
  type Session,
  SessionManager
} from '@jupyterlab/services';
import { pageStorage } from '../platform/page-storage.js';
import { IBridgeBackends } from '../backends/tokens.js';
import { CompositeKernelManager } from './kernel-manager.js';
import { LogoLoader } from './logos.js';
import { CompositeSessionManager, CompositeSpecManager } from './managers.js';
import { CompositeSessionClient } from './session-client.js';
import { SpecCache } from './spec-cache.js';
import { CompositeSpecClient } from './spec-client.js';

type Standby = () => boolean | 'when-hidden';

const kernelManager: ServiceManagerPlugin<Kernel.IManager> = {
  id: '@tpulab/labextension:kernel-manager',
  description: 'Kernels of the Jupyter server, the TPULab server and its remotes.',
  autoStart: true,
  provides: IKernelManager,
  optional: [IBridgeBackends, IServerSettings, IConnectionStatus],
  activate: (
    _: null,
    backends: IBridgeBackends | null,
    serverSettings: ServerConnection.ISettings | null,
    status: IConnectionStatus | null
  ): Kernel.IManager =>
    withBackends<Kernel.IManager>(
      backends,
      known =>
        new CompositeKernelManager({
          backends: known,
          specClient: specClient(known),
          standby: standby(status)
        }),
      () => new KernelManager({ ...(serverSettings && { serverSettings }), standby: standby(status) })
    )
};

const kernelSpecManager: ServiceManagerPlugin<KernelSpec.IManager> = {
  id: '@tpulab/labextension:kernel-spec-manager',
  description: 'Kernelspecs of the Jupyter server, the TPULab server and its remotes.',
  autoStart: true,
  provides: IKernelSpecManager,
  // The kernel manager comes first: when it has failed, the bridge's kernelspecs must not be offered.
  requires: [IKernelManager],
  optional: [IBridgeBackends, IServerSettings, IConnectionStatus],
  activate: (
    _: null,
    __: Kernel.IManager,
    backends: IBridgeBackends | null,
    serverSettings: ServerConnection.ISettings | null,
    status: IConnectionStatus | null
  ): KernelSpec.IManager =>
    withBackends<KernelSpec.IManager>(
      backends,
      known => {
        const client = specClient(known);
        const options = { serverSettings: client.serverSettings, kernelSpecAPIClient: client };
        const manager = new CompositeSpecManager({ ...options, standby: standby(status) });
        onRecovery(known, () => void manager.refreshSpecs().catch(() => undefined));
        return manager;
      },
      () => new KernelSpecManager({ ...(serverSettings && { serverSettings }), standby: standby(status) })
    )
};

const sessionManager: ServiceManagerPlugin<Session.IManager> = {
  id: '@tpulab/labextension:session-manager',
  description: 'Sessions of the Jupyter server, the TPULab server and its remotes.',
  autoStart: true,
  provides: ISessionManager,
  requires: [IKernelManager],
  optional: [IBridgeBackends, IServerSettings, IConnectionStatus],
  activate: (
    _: null,
    kernels: Kernel.IManager,
    backends: IBridgeBackends | null,
    serverSettings: ServerConnection.ISettings | null,
    status: IConnectionStatus | null
  ): Session.IManager =>
    withBackends<Session.IManager>(
      backends,
      known => {
        const client = new CompositeSessionClient(known);
        client.kernelsChanged.connect(() => void kernels.refreshRunning().catch(() => undefined));
        const manager = new CompositeSessionManager({
          kernelManager: kernels,
          serverSettings: client.serverSettings,
          sessionAPIClient: client,
          standby: standby(status)
        });
        onRecovery(known, () => void manager.refreshRunning().catch(() => undefined));
        known.gatewayRemoved.connect(() => void manager.refreshRunning().catch(() => undefined));
        return manager;
      },
      () =>
        new SessionManager({
          kernelManager: kernels,
          ...(serverSettings && { serverSettings }),
          standby: standby(status)
        })
    )
};

export const kernelPlugins = [kernelManager, kernelSpecManager, sessionManager];

/** Builds our manager; when that throws, switches the bridge off for this page, reports why, and builds the stock manager. */
function withBackends<T>(
  backends: IBridgeBackends | null,
  ours: (known: IBridgeBackends) => T,
  stock: () => T
): T {
  if (backends?.isUsable) {
    try {
      return ours(backends);
    } catch (error) {
      backends.disable(error);
    }
  }
  return stock();
}

/** Calls `action` whenever a gateway serves again, including gateways that become known later. */
function onRecovery(backends: IBridgeBackends, action: () => void): void {
  backends.gateways.forEach(gateway => gateway.recovered.connect(action));
  backends.gatewayAdded.connect((_, gateway) => gateway.recovered.connect(action));
}

const specClients = new WeakMap<IBridgeBackends, CompositeSpecClient>();

/** One client for the spec manager and for `kernel.spec`, so that both know the same specs. */
function specClient(backends: IBridgeBackends): CompositeSpecClient {
  let client = specClients.get(backends);
  if (client === undefined) {
    client = new CompositeSpecClient(backends, new SpecCache(pageStorage()), new LogoLoader());
    specClients.set(backends, client);
  }
  return client;
}

/** As in Lab's own managers, there are no polls while the page is hidden or Lab knows that its server is unreachable. */
function standby(status: IConnectionStatus | null): Standby {
  return () => (status !== null && !status.isConnected) || 'when-hidden';
}
