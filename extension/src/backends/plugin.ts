/** Builds the backends before the application starts, without waiting for the network. */
import { IServerSettings, ServerConnection, type ServiceManagerPlugin } from '@jupyterlab/services';
import { IBridgeBackends } from './tokens.js';
import { Backends } from './backends.js';
import { BridgeBackend } from './bridge-backend.js';
import { JupyterBackend } from './jupyter-backend.js';
import { pageStorage } from '../platform/page-storage.js';

const backendsPlugin: ServiceManagerPlugin<IBridgeBackends> = {
  id: '@tpulab/labextension:backends',
  description: 'Finds the TPULab server and keeps the state of the kernel servers behind this page.',
  autoStart: true,
  provides: IBridgeBackends,
  optional: [IServerSettings],
  activate: (_: null, serverSettings: ServerConnection.ISettings | null): IBridgeBackends => {
    const jupyter = serverSettings ?? ServerConnection.makeSettings();
    const bridge = new BridgeBackend({ jupyter, pageHostname: window.location.hostname });
    // The page lives as long as these listeners, so nothing removes them.
    window.addEventListener('online', () => bridge.reconnectNow());
    bridge.start();
    return new Backends(new JupyterBackend(jupyter), bridge, { storage: pageStorage() });
  }
};

export const backendPlugins = [backendsPlugin];
