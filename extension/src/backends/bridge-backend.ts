/** The bridge on this machine: the Jupyter server of the page knows where it is. */
import type { ServerConnection } from '@jupyterlab/services';
import { GatewayBackend, type IGatewayBackendOptions } from './gateway-backend.js';
import { requestAddress } from './probe.js';
import type { IBridgeAddress } from './bridge-settings.js';

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

/**
 * The host name by which the page reaches a bridge on loopback.
 *
 * Cookies ignore ports: on the page's own host name the browser would send the Jupyter server's login cookie to the
 * bridge with every socket. So the other loopback name comes first, and the same name is only the fallback on a
 * machine where the other one does not lead to the bridge.
 */
const RENAMED: Readonly<Record<string, string>> = {
  '127.0.0.1': 'localhost',
  localhost: '127.0.0.1',
  '[::1]': '127.0.0.1'
};

/**
 * Addresses at which a page reaches the bridge, best first. A page that is not on loopback uses its own server, which passes requests on:
 * its loopback is another machine, and a page over https may not request a plain http address.
 */
export function addressesFor(
  direct: IBridgeAddress | null,
  proxy: string | null,
  page: { readonly base: string; readonly pageHostname: string }
): IBridgeAddress[] {
  const isLocal = RENAMED[page.pageHostname] !== undefined;
  if (direct !== null && (isLocal || proxy === null)) {
    const { token, proof } = direct;
    return bridgeUrlsFor(direct.url, page.pageHostname).map(url => ({
      url,
      token,
      ...(proof && { proof: { url, key: proof.key } })
    }));
  }
  return proxy === null ? [] : [{ url: new URL(proxy, page.base).href, token: '', isProxied: true }];
}

/** Base URLs to try in order, each ending in a slash. `pageHostname` as in `window.location.hostname`. */
export function bridgeUrlsFor(url: string, pageHostname: string): string[] {
  const given = withSlash(new URL(url));
  const other = RENAMED[pageHostname];
  if (other === undefined || RENAMED[given.hostname] === undefined) return [given.href];
  const preferred = new URL(given);
  preferred.hostname = other;
  return preferred.href === given.href ? [given.href] : [preferred.href, given.href];
}

function withSlash(url: URL): URL {
  const result = new URL(url);
  result.search = '';
  result.hash = '';
  if (!result.pathname.endsWith('/')) {
    result.pathname += '/';
  }
  return result;
}
