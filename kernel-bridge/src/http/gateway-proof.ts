/**
 * How a gateway shows that it is the one whose record was read, before anybody sends it a token. A gateway that has ended frees
 * its port, and on a shared machine any user may take it.
 *
 * The key is made for each process and kept in `gateway.json`, which only this user can read. It is not the token: one that
 * somebody has chosen could be guessed from an answer.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** The one route that answers without a token. */
export const IDENTITY = '/bridge/v1/identity';

export function newProofKey(): string {
  return randomBytes(32).toString('hex');
}

/** Nobody has asked it before, so no earlier answer fits. */
export function newChallenge(): string {
  return randomBytes(32).toString('hex');
}

/** @param challenge made by whoever asks, so that an answer cannot be used twice */
export function proofOf(key: string, challenge: string): string {
  return createHmac('sha256', key).update(challenge).digest('hex');
}

/** @param answer body of an answer of the identity route, from whoever it may be */
export function isProof(key: string, challenge: string, answer: unknown): boolean {
  const proof = (answer as { proof?: unknown } | null | undefined)?.proof;
  if (typeof proof !== 'string') return false;
  const expected = Buffer.from(proofOf(key, challenge));
  const given = Buffer.from(proof);
  return given.length === expected.length && timingSafeEqual(given, expected);
}
