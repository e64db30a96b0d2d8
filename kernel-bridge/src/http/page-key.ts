/**
 * How a page goes on without its token: it gets a key, and its browser a cookie that no script can read. Either is of no use without the
 * other: a script that found the key has no cookie elsewhere, and servers on other ports of this machine, which browsers send the same
 * cookies, have no key. Both are made of the token, so they live as long as it does, and a gateway that was restarted knows them.
 */
import { createHash, createHmac, randomBytes } from 'node:crypto';

const KEY = /^page-[0-9a-f]{64}$/;
const NONCE = /^[0-9a-f]{32}$/;

export const newNonce = (): string => randomBytes(16).toString('hex');
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
