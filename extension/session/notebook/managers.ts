/** JupyterLab's managers over the page's backends: the same managers as the extension provides in JupyterLab. */
import type { ContentsManager, ServiceManager } from '@jupyterlab/services';
import type { Backends } from '../../src/backends/backends.js';
import { pageStorage } from '../../src/platform/page-storage.js';
import { CompositeKernelManager } from '../../src/kernels/kernel-manager.js';
import { LogoLoader } from '../../src/kernels/logos.js';
import { CompositeSessionManager, CompositeSpecManager } from '../../src/kernels/managers.js';
import { CompositeSessionClient } from '../../src/kernels/session-client.js';
import { SpecCache } from '../../src/kernels/spec-cache.js';
import { CompositeSpecClient } from '../../src/kernels/spec-client.js';

export type Managers = Pick<
  ServiceManager.IManager,
  'contents' | 'kernels' | 'kernelspecs' | 'sessions' | 'ready' | 'isReady'
>;

/** A document searches for its kernel as soon as the sessions are known; without the kernelspecs it would find none. */
class SessionsWithSpecs extends CompositeSessionManager {
  specsReady: Promise<void> = Promise.resolve();

  override get ready(): Promise<void> {
    return Promise.all([super.ready, this.specsReady]).then(() => undefined);
  }
}

export function pageManagers(backends: Backends, contents: ContentsManager): Managers {
  const specClient = new CompositeSpecClient(backends, new SpecCache(pageStorage()), new LogoLoader());
  const standby = 'when-hidden' as const;
  const { serverSettings } = specClient;
  const kernels = new CompositeKernelManager({ backends, specClient, standby });
  const kernelspecs = new CompositeSpecManager({ serverSettings, kernelSpecAPIClient: specClient, standby });
  const sessionAPIClient = new CompositeSessionClient(backends);
  sessionAPIClient.kernelsChanged.connect(() => void kernels.refreshRunning().catch(() => undefined));
  const sessions = new SessionsWithSpecs({
    kernelManager: kernels,
    serverSettings: sessionAPIClient.serverSettings,
    sessionAPIClient,
    standby
  });
  sessions.specsReady = kernelspecs.ready;
  const refresh = (): void => {
    void kernelspecs.refreshSpecs().catch(() => undefined);
    void sessions.refreshRunning().catch(() => undefined);
  };
  backends.gateways.forEach(({ recovered }) => recovered.connect(refresh));
  backends.gatewayAdded.connect((_, { recovered }) => recovered.connect(refresh));
  backends.gatewayRemoved.connect(refresh);
  const ready = sessions.ready;
  return { contents, kernels, kernelspecs, sessions, ready, isReady: true };
}
