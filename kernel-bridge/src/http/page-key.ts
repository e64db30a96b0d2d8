/**
 * How a page works without its token: it gets a key, and its browser gets a cookie that no script can read. Each is useless
 * without the other: a script that found the key has no cookie elsewhere, and servers on other ports of this machine, to
 * which browsers send the same cookies, have no key. Both are derived from the token, so they expire with it, and a
 * restarted gateway accepts them.
 */
import { createHash, createHmac, randomBytes } from 'node:crypto';

const KEY = /^page-[0-9a-f]{64}$/;
const CODE = /^code-[0-9a-f]{64}$/;
const NONCE = /^[0-9a-f]{32}$/;

export const newNonce = (): string => randomBytes(16).toString('hex');
export const PAGE_KEY = '/bridge/v1/page-key';
export const isPageCode = (given: string): boolean => CODE.test(given);
export const isPageKey = (given: string): boolean => KEY.test(given);

/** @param holder digest of the token */
export function pageKey(holder: Buffer, nonce: string): string {
  return `page-${createHmac('sha256', holder).update(`page ${nonce}`).digest('hex')}`;
}

/** The name identifies the gateway, because gateways on one host share a cookie jar, whatever their ports. */
export function cookieName(gateway: Buffer): string {
  return `tpulab-page-${createHash('sha256').update('cookie').update(gateway).digest('hex').slice(0, 12)}`;
}

/** The nonce from the cookies of a request; null: there is none, or it is invalid. */
export function pageCookie(header: string | undefined, gateway: Buffer): string | null {
  const name = cookieName(gateway);
  const pairs = (header ?? '').split(';').map(pair => pair.trim().split('='));
  const values = pairs.filter(([key]) => key === name).map(([, value = '']) => value);
  // Two cookies of one name: another program has set one of them.
  return values.length === 1 && NONCE.test(values[0] ?? '') ? (values[0] ?? null) : null;
}

/** A user clicks a link soon after its creation, but a browser's history keeps it for years. */
const CODE_MS = 10 * 60_000;
/** Limit of unopened links; the oldest is dropped. */
const CODES = 64;

/** Codes of links to the session page: each admits one page, once, and is worthless afterwards. */
export class PageCodes<T> {
  readonly #codes = new Map<string, { readonly holder: T; readonly until: number }>();

  /** @param now milliseconds since any moment */
  constructor(private readonly now: () => number = () => performance.now()) {}

  make(holder: T): string {
    const code = `code-${randomBytes(32).toString('hex')}`;
    this.#codes.set(digestOf(code), { holder, until: this.now() + CODE_MS });
    for (const oldest of [...this.#codes.keys()].slice(0, -CODES)) this.#codes.delete(oldest);
    return code;
  }

  find(code: string): T | null {
    const found = this.#codes.get(digestOf(code));
    return found !== undefined && found.until > this.now() ? found.holder : null;
  }

  /** Like `find`, but also invalidates the code. */
  take(code: string): T | null {
    const holder = this.find(code);
    this.#codes.delete(digestOf(code));
    return holder;
  }
}

/** The map is keyed by digest, so that the time of a lookup reveals nothing about the codes. */
function digestOf(code: string): string {
  return createHash('sha256').update(code).digest('hex');
}
