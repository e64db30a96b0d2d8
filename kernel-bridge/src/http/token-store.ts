/** Creates, lists and revokes named tokens. The running gateway detects the changed file automatically. */
import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import {
  describeHolder,
  LockHeldError,
  type ProcessLock,
  takeProcessLock
} from '@tpulab/platform/process-lock.js';
import { nearestName } from '@tpulab/platform/nearest-name.js';
import { NotebookStamp, Rights } from './rights.js';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { writeAtomically } from '@tpulab/platform/write-atomically.js';
import { CodedError } from '@tpulab/platform/errors.js';

/** Another command locks the file for milliseconds only. */
const LOCK_WAIT_MS = 10_000;
const LOCK_RETRY_MS = 20;

/** Limits of a token: `reads` for a link to one notebook, below the root folder, or `rights`. */
type TokenLimits = Pick<TokenRecord, 'reads' | 'stamp' | 'rights'>;

const NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;

export class TokenStore {
  readonly #file: string;

  constructor(stateDir: string) {
    this.#file = tokenFileIn(stateDir);
  }

  list(): readonly TokenRecord[] {
    return readTokenFile(this.#file);
  }

  /**
   * The token itself is in the result and is stored nowhere else.
   *
   * @param limits what the token may do; absent: everything
   */
  async create(
    name: string,
    expiresAt: Date | null,
    limits: TokenLimits = {}
  ): Promise<{ token: string; record: TokenRecord }> {
    if (!NAME.test(name)) {
      throw new TokenError(
        'token_name_invalid',
        `"${name}" is not a valid token name; use up to 64 letters, digits and . _ @ -, beginning with a letter or digit.`
      );
    }
    await using _lock = await this.#lock();
    const tokens = this.list();
    if (tokens.some(token => token.name === name)) {
      throw new TokenError(
        'token_name_taken',
        `A token named "${name}" already exists; revoke it first with "tpulab token revoke ${name}", or choose another name.`
      );
    }
    if (tokens.length >= MAX_TOKENS) {
      throw new TokenError(
        'tokens_too_many',
        `There are ${MAX_TOKENS} tokens; revoke some before you create more.`
      );
    }
    const token = `tpl_${randomBytes(32).toString('base64url')}`;
    const record: TokenRecord = {
      name,
      sha256: createHash('sha256').update(token, 'utf8').digest('hex'),
      createdAt: new Date().toISOString(),
      expiresAt: expiresAt?.toISOString() ?? null,
      ...limits
    };
    await writeTokenFile(this.#file, [...tokens, record]);
    return { token, record };
  }

  /** Called when the shared notebook was overwritten: the link continues with the new contents. */
  async restamp(path: string, stamp: NotebookStamp): Promise<void> {
    await using _lock = await this.#lock();
    const tokens = this.list();
    await writeTokenFile(
      this.#file,
      tokens.map(token => (token.reads === path && token.stamp !== undefined ? { ...token, stamp } : token))
    );
  }

  async revoke(name: string): Promise<void> {
    await using _lock = await this.#lock();
    const tokens = this.list();
    const remaining = tokens.filter(token => token.name !== name);
    if (remaining.length === tokens.length) {
      const near = nearestName(
        name,
        tokens.map(token => token.name)
      );
      throw new TokenError(
        'token_unknown',
        near === null
          ? `There is no token named "${name}"; "tpulab token list" shows all.`
          : `There is no token named "${name}"; the nearest name is "${near}".`
      );
    }
    await writeTokenFile(this.#file, remaining);
  }

  async #lock(): Promise<ProcessLock> {
    const deadline = performance.now() + LOCK_WAIT_MS;
    for (;;) {
      try {
        return await takeProcessLock(`${this.#file}.lock`);
      } catch (error) {
        if (!(error instanceof LockHeldError)) throw error;
        if (performance.now() > deadline) {
          throw new TokenError(
            'tokens_busy',
            `The tokens are being changed by ${describeHolder(error.holder)}; try again when it has ended.`,
            { cause: error }
          );
        }
      }
      await wait(LOCK_RETRY_MS);
    }
  }
}

/**
 * `<state>/tokens.json`: the named tokens of clients. It contains digests only, which are useless to a reader. A plain
 * SHA-256 is enough, because the tokens are 256 random bits and cannot be found by guessing.
 */
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
 * Version 2 has tokens that may only read; version 3 has tokens with rights, and links that expire with their notebook. A
 * gateway that supports earlier versions only would grant their holders too much, so it refuses the file.
 */
const TokenFile = Type.Object({
  version: Type.Union([Type.Literal(1), Type.Literal(2), Type.Literal(3)]),
  tokens: Type.Array(TokenRecord)
});

/** All are compared with each request, so their number is bounded. */
export const MAX_TOKENS = 256;

export function tokenFileIn(stateDir: string): string {
  return path.join(stateDir, 'tokens.json');
}

/**
 * Read synchronously: the gateway checks the file before it admits a request.
 *
 * @throws TokenError `tokens_unreadable`
 */
export function readTokenFile(file: string): readonly TokenRecord[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (/^(ENOENT|ENOTDIR)$/.test((error as NodeJS.ErrnoException).code ?? '')) return [];
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

export type TokenErrorCode =
  | 'token_name_invalid'
  | 'token_name_taken'
  | 'token_unknown'
  | 'token_expiry_invalid'
  | 'token_rights_invalid'
  | 'tokens_unreadable'
  | 'tokens_busy'
  | 'tokens_too_many';

/** Why a token of a client could not be created, listed or revoked. Shown by the command line, never sent over HTTP. */
export class TokenError extends CodedError<TokenErrorCode> {}
