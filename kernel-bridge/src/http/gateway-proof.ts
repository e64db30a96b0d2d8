/**
 * How a gateway proves that the record a client has read is its own, before the client sends it a token. A gateway that has
 * ended frees its port, and on a shared machine any user may claim it.
 *
 * The key is created for each process and stored in `gateway.json`, which only this user can read. It is not the token: a
 * token that a user has chosen could be guessed from an answer.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** The one route that answers without a token. */
export const IDENTITY = '/bridge/v1/identity';

export function newProofKey(): string {
  return randomBytes(32).toString('hex');
}

/** A value never used before, so that no earlier answer matches. */
export function newChallenge(): string {
  return randomBytes(32).toString('hex');
}

/** @param challenge created by the client, so that an answer cannot be reused */
export function proofOf(key: string, challenge: string): string {
  return createHmac('sha256', key).update(challenge).digest('hex');
}

/** @param answer body of an answer of the identity route, from an unverified program */
export function isProof(key: string, challenge: string, answer: unknown): boolean {
  const proof = (answer as { proof?: unknown } | null | undefined)?.proof;
  if (typeof proof !== 'string') return false;
  const expected = Buffer.from(proofOf(key, challenge));
  const given = Buffer.from(proof);
  return given.length === expected.length && timingSafeEqual(given, expected);
}
