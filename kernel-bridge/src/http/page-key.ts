/**
 * How a page goes on without its token: it gets a key, and its browser a cookie that no script can read. Either is of no use without the
 * other: a script that found the key has no cookie elsewhere, and servers on other ports of this machine, which browsers send the same
 * cookies, have no key. Both are made of the token, so they live as long as it does, and a gateway that was restarted knows them.
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

/** Gateways on one host have one jar of cookies, whatever their ports. */
export function cookieName(gateway: Buffer): string {
  return `tpulab-page-${createHash('sha256').update('cookie').update(gateway).digest('hex').slice(0, 12)}`;
}

/** The nonce in the cookies of a request; null: none, or one that is none of ours. */
export function pageCookie(header: string | undefined, gateway: Buffer): string | null {
  const name = cookieName(gateway);
  const pairs = (header ?? '').split(';').map(pair => pair.trim().split('='));
  const values = pairs.filter(([key]) => key === name).map(([, value = '']) => value);
  // Two of one name: somebody else has put one there.
  return values.length === 1 && NONCE.test(values[0] ?? '') ? (values[0] ?? null) : null;
}

/** A person clicks a link soon after it was made; a browser's history keeps it for years. */
const CODE_MS = 10 * 60_000;
/** Links that nobody has opened yet; the oldest makes room. */
const CODES = 64;

/** Codes of links to the session page: each lets one page in, once, and is worthless afterwards. */
export class PageCodes<T> {
  readonly #codes = new Map<string, { readonly holder: T; readonly until: number }>();

  /** @param now milliseconds from any moment on */
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

  /** As `find`, for the last time. */
  take(code: string): T | null {
    const holder = this.find(code);
    this.#codes.delete(digestOf(code));
    return holder;
  }
}

/** Looked up by it, so that the time of a look tells nothing of the codes. */
function digestOf(code: string): string {
  return createHash('sha256').update(code).digest('hex');
}
