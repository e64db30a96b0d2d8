/**
 * `<state>/tokens.json`: the named tokens of clients. It holds digests only, so whoever reads it cannot use them. A plain
 * SHA-256 is enough, because the tokens are 256 random bits and cannot be found by trying.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { writeAtomically } from '../platform/write-atomically.js';
import { NotebookStamp, Rights } from './rights.js';
import { TokenError } from './token-error.js';

export const TokenRecord = Type.Object({
  name: Type.String(),
  sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  createdAt: Type.String(),
  expiresAt: Type.Union([Type.String(), Type.Null()]),
  reads: Type.Optional(
    Type.String({ description: 'the one notebook that it may read, and change nothing; absent: everything' })
  ),
  stamp: Type.Optional(NotebookStamp),
  rights: Type.Optional(Rights)
});
export type TokenRecord = Static<typeof TokenRecord>;

/**
 * Version 2 has tokens that may only read, version 3 tokens with rights, and links that end with their notebook. A gateway that
 * knows earlier versions alone would let their holders do more than they may, so it refuses the file.
 */
const TokenFile = Type.Object({
  version: Type.Union([Type.Literal(1), Type.Literal(2), Type.Literal(3)]),
  tokens: Type.Array(TokenRecord)
});

/** All are compared with each request, so their number has a bound. */
export const MAX_TOKENS = 256;

export function tokenFileIn(stateDir: string): string {
  return path.join(stateDir, 'tokens.json');
}

/**
 * Read in one go without waiting: the gateway looks at the file before it lets a request in.
 *
 * @throws TokenError `tokens_unreadable`
 */
export function readTokenFile(file: string): readonly TokenRecord[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw unreadable(file, error);
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw unreadable(file, error);
  }
  if (!Value.Check(TokenFile, json)) throw unreadable(file, undefined);
  return json.tokens;
}

export async function writeTokenFile(file: string, tokens: readonly TokenRecord[]): Promise<void> {
  const isNarrowed = tokens.some(({ rights, reads }) => rights !== undefined || reads !== undefined);
  const version = isNarrowed ? 3 : 1;
  await writeAtomically(file, `${JSON.stringify({ version, tokens }, null, 1)}\n`);
}

export function hasExpired({ expiresAt }: Pick<TokenRecord, 'expiresAt'>, now: number): boolean {
  return expiresAt !== null && !(Date.parse(expiresAt) > now);
}

function unreadable(file: string, cause: unknown): TokenError {
  return new TokenError(
    'tokens_unreadable',
    `The tokens in ${file} cannot be read; remove that file and create the tokens again.`,
    { cause }
  );
}
