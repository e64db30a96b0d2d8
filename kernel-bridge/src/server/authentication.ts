/** Who may use the gateway: whoever shows its token. Cookies are never read. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

export class Authenticator {
  readonly #digest: Buffer;

  constructor(token: string) {
    if (token === '') throw new TypeError('the token of a gateway cannot be empty');
    this.#digest = digest(token);
  }

  /**
   * True when the request carries the token: in `Authorization: token X` or `Bearer X`, or, where `queryAllowed`,
   * as `?token=X` (a page cannot set headers on a WebSocket or an image).
   */
  accepts(request: Pick<IncomingMessage, 'headers' | 'url'>, queryAllowed: boolean): boolean {
    const header = request.headers.authorization;
    if (header !== undefined) {
      const match = /^(?:token|bearer) +(\S+) *$/i.exec(header);
      return match?.[1] !== undefined && this.#matches(match[1]);
    }
    if (!queryAllowed) return false;
    const given = queryOf(request.url ?? '').getAll('token');
    return given.length === 1 && given[0] !== undefined && this.#matches(given[0]);
  }

  /** Equal digests have equal lengths, so the comparison takes the same time for every wrong token. */
  #matches(given: string): boolean {
    return timingSafeEqual(digest(given), this.#digest);
  }
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token, 'utf8').digest();
}

/** Query of a request target, without resolving it against anything. */
export function queryOf(target: string): URLSearchParams {
  const mark = target.indexOf('?');
  return new URLSearchParams(mark < 0 ? '' : target.slice(mark + 1));
}

/** Path of a request target; what follows `?` may hold a token and must not be logged. */
export function pathOf(target: string): string {
  const mark = target.indexOf('?');
  return mark < 0 ? target : target.slice(0, mark);
}
