/** The kernel servers behind this page: the gateway that serves it, and the remotes behind that. */
import { ServerConnection } from '@jupyterlab/services';
import { Backends } from '../../src/backends/backends.js';
import { GatewayBackend } from '../../src/backends/gateway-backend.js';
import { JupyterBackend } from '../../src/backends/jupyter-backend.js';
import { pageStorage } from '../../src/platform/page-storage.js';
import { trans } from '../text.js';

/** The gateway of the page: its address is the page's own, and never another. */
export class PageBackend extends GatewayBackend {
  constructor(url: string, token: string) {
    super(
      'bridge',
      trans.__('TPULab server'),
      { candidates: async () => [{ url, token }], refusal: () => null },
      {}
    );
  }
}

export function pageBackends(gateway: string, token: string): Backends {
  const bridge = new PageBackend(gateway, token);
  window.addEventListener('online', () => bridge.reconnectNow());
  bridge.start();
  return new Backends(new JupyterBackend(withoutJupyter()), bridge, { storage: pageStorage() });
}

const NOTHING: Readonly<Record<string, unknown>> = {
  kernels: [],
  sessions: [],
  kernelspecs: { default: '', kernelspecs: {} }
};

/** This page has no Jupyter server beside the gateway: its lists are empty, and are asked of nobody. */
function withoutJupyter(): ServerConnection.ISettings {
  return ServerConnection.makeSettings({
    baseUrl: 'http://jupyter.invalid/',
    wsUrl: 'ws://jupyter.invalid/',
    token: '',
    fetch: async input => {
      const { pathname } = new URL(input instanceof Request ? input.url : input);
      const list = NOTHING[pathname.split('/').at(-1) ?? ''];
      return list === undefined ? new Response(null, { status: 404 }) : Response.json(list);
    }
  });
}
