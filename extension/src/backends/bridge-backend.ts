/** The bridge on this machine: the Jupyter server of the page knows where it is. */
import type { ServerConnection } from '@jupyterlab/services';
import { addressesFor } from './bridge-url.js';
import { GatewayBackend, type IGatewayBackendOptions } from './gateway-backend.js';
import { requestAddress } from './probe.js';

export interface IBridgeBackendOptions extends IGatewayBackendOptions {
  /** Settings of the page's own server, which knows the bridge's address. */
  readonly jupyter: ServerConnection.ISettings;
  /** `window.location.hostname`. */
  readonly pageHostname: string;
}

export class BridgeBackend extends GatewayBackend {
  constructor({ jupyter, pageHostname, ...options }: IBridgeBackendOptions) {
    super(
      'bridge',
      'TPULab server',
      {
        candidates: async probe => {
          const { direct, proxy } = await requestAddress(jupyter, probe);
          return addressesFor(direct, proxy, { base: jupyter.baseUrl, pageHostname });
        },
        refusal: () => null
      },
      options
    );
  }
}
