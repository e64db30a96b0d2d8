/**
 * Server settings for the bridge that follow its address: stock managers and kernel connections keep the object that
 * they were built with, so its URL and token are read again for each request and each socket.
 */
import { ServerConnection } from '@jupyterlab/services';
import { BackendError } from './backend-error.js';
import { KernelSockets } from './numbered-socket.js';

export interface IBridgeAddress {
  /** With a trailing slash. */
  readonly url: string;
  /** '' where the Jupyter server inserts it. */
  readonly token: string;
  /** The page's own server passes requests on: with its login, without a token. */
  readonly isProxied?: true;
  /** With this the bridge on this machine proves its identity; undefined where it cannot, or need not. */
  readonly proof?: { readonly url: string; readonly key: string };
}

interface IBridgeSettingsOptions {
  /** The present address; null while it is unknown. */
  address(): IBridgeAddress | null;
  /** Called when an answer, or a missing answer, indicates a problem of the bridge. */
  suspect(): void;
  /** Called when there is no answer, or a socket has broken: another program may answer next, on the freed port. */
  lost(): void;
  fetch?: typeof fetch;
  readTimeoutMs?: number;
  writeTimeoutMs?: number;
}

/** Lists and models are read from memory; a longer wait means that the request is stuck. */
export const READ_TIMEOUT_MS = 5_000;
/** Starting or restarting a kernel waits for its first answer, which on a busy machine takes tens of seconds. */
const WRITE_TIMEOUT_MS = 90_000;

const DIRECT_INIT: RequestInit = { cache: 'default', credentials: 'omit' };
/** The key of a session page works only with the cookie of its browser. */
const KEYED_INIT: RequestInit = { cache: 'default', credentials: 'same-origin' };
const directInit = (token: string): RequestInit => (token.startsWith('page-') ? KEYED_INIT : DIRECT_INIT);
/** The login of the page is also the proxy's. */
const PROXIED_INIT: RequestInit = { cache: 'no-store', credentials: 'same-origin' };

const SUSPICIOUS_STATUS: ReadonlySet<number> = new Set([401, 403, 502, 503, 504]);

/** Never contacted: requests are refused before they are sent while there is no address. */
const NO_URL = 'http://bridge.invalid/';

/** Settings for one fixed address: no cookies, the token in the header and on socket URLs. */
export function fixedBridgeSettings(
  address: IBridgeAddress,
  fetcher?: typeof fetch
): ServerConnection.ISettings {
  if (address.isProxied === true) {
    return ServerConnection.makeSettings({
      baseUrl: address.url,
      wsUrl: socketUrl(address.url),
      token: '',
      appendToken: false,
      init: PROXIED_INIT,
      ...(fetcher && { fetch: fetcher })
    });
  }
  return ServerConnection.makeSettings({
    baseUrl: address.url,
    wsUrl: socketUrl(address.url),
    token: address.token,
    // Needed on any host name: a browser cannot set headers on a socket.
    appendToken: true,
    // `no-store` would add a time stamp to each URL, and so a preflight to each request.
    init: directInit(address.token),
    fetch: withoutXsrf(fetcher ?? fetch)
  });
}

/** Settings with the current `baseUrl`, `wsUrl` and `token`, and a deadline on every request. */
export function liveBridgeSettings(options: IBridgeSettingsOptions): {
  settings: ServerConnection.ISettings;
  sockets: KernelSockets;
} {
  const fixed = fixedBridgeSettings({ url: NO_URL, token: '' }, options.fetch);
  const own = options.fetch ?? fetch;
  const isProxied = (): boolean => options.address()?.isProxied === true;
  const either: Fetch = (input, init) => (isProxied() ? own(input, init) : fixed.fetch(input, init));
  const sockets = new KernelSockets(fixed.WebSocket, () => options.lost());
  const settings = {
    ...fixed,
    fetch: watched(either, options),
    get init(): RequestInit {
      return isProxied() ? PROXIED_INIT : directInit(options.address()?.token ?? '');
    },
    WebSocket: sockets.WebSocket,
    get baseUrl(): string {
      return options.address()?.url ?? NO_URL;
    },
    get wsUrl(): string {
      return socketUrl(options.address()?.url ?? NO_URL);
    },
    get token(): string {
      return options.address()?.token ?? '';
    }
  };
  return { settings, sockets };
}

type Fetch = ServerConnection.ISettings['fetch'];

/** The page's `_xsrf` cookie value belongs to the Jupyter server; the services library adds it to every request. */
function withoutXsrf(fetcher: typeof fetch): Fetch {
  return (input, init) => {
    const request = new Request(input, init);
    request.headers.delete('X-XSRFToken');
    return fetcher(request);
  };
}

function watched(fetcher: Fetch, options: IBridgeSettingsOptions): Fetch {
  const readTimeoutMs = options.readTimeoutMs ?? READ_TIMEOUT_MS;
  const writeTimeoutMs = options.writeTimeoutMs ?? WRITE_TIMEOUT_MS;
  return async (input, init) => {
    const request = new Request(input, init);
    if (options.address() === null) {
      throw new BackendError(
        'bridge.notReady',
        'The TPULab server has no address yet; wait until it has started, or see the status bar.'
      );
    }
    const timeoutMs = request.method === 'GET' ? readTimeoutMs : writeTimeoutMs;
    try {
      // The signal covers the body too, so a server that stalls in the middle of an answer is noticed.
      const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)]);
      const response = await fetcher(new Request(request, { signal }));
      if (SUSPICIOUS_STATUS.has(response.status)) options.suspect();
      return response;
    } catch (error) {
      // A request cancelled here does not indicate who is listening.
      if (error instanceof TypeError) options.lost();
      else options.suspect();
      throw error;
    }
  };
}

function socketUrl(url: string): string {
  return `ws${url.slice(4)}`;
}
