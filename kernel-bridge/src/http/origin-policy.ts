/**
 * Which host names the gateway answers to, and which pages may use it.
 *
 * The Host check prevents DNS rebinding: a page whose name was changed to resolve to 127.0.0.1 still sends its own name.
 * Origins are compared as whole strings; there are no patterns to get wrong.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { bridgeError } from '@tpulab/platform/errors.js';

const LOOPBACK_NAMES = ['127.0.0.1', 'localhost', '::1'];

export class OriginPolicy {
  readonly #hosts: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;

  /**
   * `hosts`: additional host names, without port. `origins`: as a browser sends them, `http://127.0.0.1:8888`.
   * `allowCredentials`: pages of these origins may send requests in the browser's credentials mode, as Colab does; cookies
   * that the browser adds are ignored.
   */
  constructor(
    hosts: readonly string[],
    origins: readonly string[],
    private readonly allowCredentials = false
  ) {
    this.#hosts = new Set([...LOOPBACK_NAMES, ...hosts.map(host => host.toLowerCase())]);
    this.#origins = new Set(origins.map(normalOrigin));
  }

  /** Any port is allowed: a tunnel (`ssh -L`) shows the gateway under another port than its own. */
  allowsHost(host: string | undefined): boolean {
    if (host === undefined) return false;
    const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]/@?#\s]+))(?::\d{1,5})?$/i.exec(host);
    const name = match?.[1] ?? match?.[2];
    return name !== undefined && this.#hosts.has(name.toLowerCase());
  }

  /** Requests without an Origin do not come from a page of another site. */
  allowsOrigin(headers: Pick<IncomingHttpHeaders, 'origin' | 'host'>): boolean {
    const { origin, host } = headers;
    if (origin === undefined) return true;
    return this.#origins.has(origin) || origin === `http://${host}` || origin === `https://${host}`;
  }

  /** The headers that allow a page of an allowed origin to read an answer, including errors. */
  corsHeaders(headers: Pick<IncomingHttpHeaders, 'origin' | 'host'>): Record<string, string> {
    const { origin } = headers;
    if (origin === undefined || !this.allowsOrigin(headers)) return { vary: 'Origin' };
    return {
      'access-control-allow-origin': origin,
      ...(this.#trusts(origin) ? { 'access-control-allow-credentials': 'true' } : {}),
      'access-control-expose-headers':
        'Location, Retry-After, Allow, ETag, X-TPULab-Modified, X-TPULab-Created, X-TPULab-Writable',
      vary: 'Origin'
    };
  }

  /**
   * Whether this origin may authenticate by `?token=`: a page that was given such a URL keeps using it (Colab). Only for
   * origins allowed by name: the bridge's own pages do not need it.
   */
  trustsQueryTokens({ origin }: Pick<IncomingHttpHeaders, 'origin'>): boolean {
    return origin !== undefined && this.#trusts(origin);
  }

  #trusts(origin: string): boolean {
    return this.allowCredentials && this.#origins.has(origin);
  }

  /** The headers of the answer to a preflight. */
  preflightHeaders(headers: IncomingHttpHeaders): Record<string, string> {
    const answer: Record<string, string> = {
      ...this.corsHeaders(headers),
      'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
      'access-control-allow-headers': 'authorization, content-type, if-match, if-none-match, x-xsrftoken',
      'access-control-max-age': '600',
      'cache-control': 'no-store'
    };
    // Chromium requires this before a public page may reach a loopback address.
    if (headers['access-control-request-private-network'] === 'true') {
      answer['access-control-allow-private-network'] = 'true';
    }
    return answer;
  }
}

/** An origin as browsers write it: lower case, no path, no default port. */
export function normalOrigin(origin: string): string {
  let url: URL;
  try {
    url = new URL(origin);
  } catch (error) {
    throw bridgeError(
      'invalid_request',
      `"${origin}" is not an origin; write it as http://HOST:PORT.`,
      error
    );
  }
  if (url.origin === 'null' || !['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '') {
    throw bridgeError('invalid_request', `"${origin}" is not an origin; write it as http://HOST:PORT.`);
  }
  return url.origin;
}
