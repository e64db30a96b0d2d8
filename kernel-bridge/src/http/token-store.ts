/** Makes, lists and revokes named tokens. The running gateway sees the changed file by itself. */
import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import {
  describeHolder,
  LockHeldError,
  type ProcessLock,
  takeProcessLock
} from '../platform/process-lock.js';
import { nearestName } from '../platform/nearest-name.js';
import { TokenError } from './token-error.js';
import type { NotebookStamp } from './rights.js';
import { MAX_TOKENS, readTokenFile, tokenFileIn, type TokenRecord, writeTokenFile } from './token-file.js';

/** Another command holds the file for milliseconds only. */
const LOCK_WAIT_MS = 10_000;
const LOCK_RETRY_MS = 20;

/** A link to the notebook `reads` below the root folder, or rights. */
export type TokenLimits = Pick<TokenRecord, 'reads' | 'stamp' | 'rights'>;

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
   * The token itself is in the result and nowhere else.
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

  /** The shared notebook was saved over: the link goes on with what is there now. */
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
    const left = tokens.filter(token => token.name !== name);
    if (left.length === tokens.length) {
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
    await writeTokenFile(this.#file, left);
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
