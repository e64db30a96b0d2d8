/**
 * Authenticates the sender of a request: by the gateway's token, by the named token of a client, or by the key of a page
 * together with its cookie. A cookie alone gives no access.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { ClientToken, ClientTokens } from './client-tokens.js';
import { isPageCode, isPageKey, PAGE_KEY, PageCodes, pageCookie, pageKey } from './page-key.js';

/** The sender of a request: the holder of the gateway's own token (null), or of a named one. */
export interface Identity {
  readonly client: ClientToken | null;
}

/** The restricted token of a sender; null: the sender may do everything. */
export function narrowed({ client }: Identity): ClientToken | null {
  return client?.rights == null ? null : client;
}

const OWN: Identity = { client: null };

export class Authenticator {
  readonly #digest: Buffer;
  /** Codes of links that have not been opened yet. */
  readonly codes = new PageCodes<Identity>();

  constructor(
    token: string,
    private readonly clients: ClientTokens | null = null
  ) {
    if (token === '') throw new TypeError('the token of a server cannot be empty');
    this.#digest = digest(token);
  }

  /**
   * The sender of the request, by the token in `Authorization: token X` or `Bearer X`, or, where
   * `queryAllowed`, in `?token=X` (a page cannot set headers on a WebSocket or an image). Null without a valid token.
   */
  identify(request: Pick<IncomingMessage, 'headers' | 'url'>, queryAllowed: boolean): Identity | null {
    if (request.headers.authorization !== undefined) {
      const given = tokenIn(request);
      return given === null ? null : this.#holder(given, request);
    }
    if (!queryAllowed) return null;
    const given = queryOf(request.url ?? '').getAll('token');
    return given.length === 1 && given[0] !== undefined ? this.#holder(given[0], request) : null;
  }

  /** Whether the token that opened a socket is still valid. */
  isStillValid({ client }: Identity): boolean {
    return client === null || this.clients?.isValid(client) === true;
  }

  /** The key that replaces the token in a page: it is useless without the cookie. */
  keyFor({ client }: Identity, nonce: string): string {
    return pageKey(client === null ? this.#digest : Buffer.from(client.sha256, 'hex'), nonce);
  }

  /** Identifies this gateway's cookie: gateways on other ports receive the same cookies. */
  get cookieOf(): Buffer {
    return this.#digest;
  }

  /** The sender of a page-key request. This spends the code of a link. */
  identifyPage(request: Pick<IncomingMessage, 'headers' | 'url'>): Identity | null {
    const identity = this.identify(request, false);
    const given = tokenIn(request) ?? '';
    return isPageCode(given) ? this.codes.take(given) : identity;
  }

  /** A code stands for the token of the link's creator, on one route only. */
  #identityOfCode(given: string, { url = '' }: Pick<IncomingMessage, 'url'>): Identity | null {
    const holder = pathOf(url) === PAGE_KEY ? this.codes.find(given) : null;
    return holder !== null && this.isStillValid(holder) ? holder : null;
  }

  #identityOfPage(given: string, nonce: string | null): Identity | null {
    if (nonce === null) return null;
    const shown = digest(given);
    const fits = (holder: Buffer): boolean => timingSafeEqual(digest(pageKey(holder, nonce)), shown);
    if (fits(this.#digest)) return OWN;
    const client = this.clients?.all().find(({ sha256 }) => fits(Buffer.from(sha256, 'hex'))) ?? null;
    return client && { client };
  }

  /** All comparisons are made, between digests of equal length, so that every wrong token takes the same time. */
  #holder(given: string, request: Pick<IncomingMessage, 'headers' | 'url'>): Identity | null {
    if (isPageCode(given)) return this.#identityOfCode(given, request);
    if (isPageKey(given))
      return this.#identityOfPage(given, pageCookie(request.headers.cookie, this.#digest));
    const shown = digest(given);
    const isOwn = timingSafeEqual(shown, this.#digest);
    const client = this.clients?.find(shown) ?? null;
    if (isOwn) return OWN;
    return client && { client };
  }
}

function tokenIn({ headers }: Pick<IncomingMessage, 'headers'>): string | null {
  return /^(?:token|bearer) +(\S+) *$/i.exec(headers.authorization ?? '')?.[1] ?? null;
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token, 'utf8').digest();
}

/** Query of a request target, without resolving it against anything. */
export function queryOf(target: string): URLSearchParams {
  const mark = target.indexOf('?');
  return new URLSearchParams(mark < 0 ? '' : target.slice(mark + 1));
}

/** Path of a request target; the query may contain a token and must not be logged. */
export function pathOf(target: string): string {
  const mark = target.indexOf('?');
  return mark < 0 ? target : target.slice(0, mark);
}
