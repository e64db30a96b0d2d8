/** The named tokens of a running gateway, always as in the file, whoever changed it. */
import { timingSafeEqual } from 'node:crypto';
import { statSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Actor } from './rights.js';
import { hasExpired, readTokenFile, tokenFileIn, type TokenRecord } from './token-store.js';

/** The longest time until a revoked token's open sockets are closed. New requests are checked immediately. */
const POLL_MS = 500;

export interface ClientToken extends Actor {
  readonly name: string;
  readonly sha256: string;
}

function clientOf({ name, sha256, createdAt, rights, reads, stamp }: TokenRecord): ClientToken {
  return {
    name,
    sha256,
    sinceMs: Date.parse(createdAt) || 0,
    rights: rights ?? (reads === undefined ? null : { level: 'read' }),
    ...(reads === undefined ? {} : { share: { path: reads, stamp: stamp ?? null } })
  };
}

export class ClientTokens implements Disposable {
  readonly #file: string;
  readonly #listeners = new Set<() => void>();
  readonly #timer: NodeJS.Timeout;
  #stamp = '';
  #tokens: readonly TokenRecord[] = [];
  #valid = '';
  /**
   * The file has changed since the last check: a token may have been added, have opened a socket and been removed in
   * between.
   */
  #isChanged = false;

  constructor(
    stateDir: string,
    private readonly log: Logger
  ) {
    this.#file = tokenFileIn(stateDir);
    this.#load();
    this.#valid = this.#signature();
    this.#isChanged = false;
    // Polled, because the system sends no event when a token expires.
    this.#timer = setInterval(() => this.#checkFile(), POLL_MS).unref();
  }

  /** Called when a token has been created, revoked, or has expired. */
  onChange(listener: () => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** Compares every token, even after a match, so that the time reveals nothing. */
  find(digest: Buffer): ClientToken | null {
    this.#load();
    const now = Date.now();
    let found: TokenRecord | null = null;
    for (const token of this.#tokens) {
      const isEqual = timingSafeEqual(Buffer.from(token.sha256, 'hex'), digest);
      if (isEqual && !hasExpired(token, now)) found = token;
    }
    return found && clientOf(found);
  }

  all(): readonly ClientToken[] {
    this.#load();
    const now = Date.now();
    return this.#tokens.filter(token => !hasExpired(token, now)).map(clientOf);
  }

  isValid({ sha256 }: ClientToken): boolean {
    this.#load();
    const now = Date.now();
    return this.#tokens.some(token => token.sha256 === sha256 && !hasExpired(token, now));
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#listeners.clear();
  }

  #checkFile(): void {
    this.#load();
    const valid = this.#signature();
    if (valid === this.#valid && !this.#isChanged) return;
    this.#valid = valid;
    this.#isChanged = false;
    for (const listener of this.#listeners) listener();
  }

  #signature(): string {
    const now = Date.now();
    return this.#tokens
      .filter(token => !hasExpired(token, now))
      .map(({ sha256 }) => sha256)
      .join();
  }

  /** The file is replaced as a whole, so its inode and times show whether it has changed. */
  #load(): void {
    let stamp = 'none';
    try {
      const { ino, mtimeMs, ctimeMs, size } = statSync(this.#file);
      stamp = [ino, mtimeMs, ctimeMs, size].join();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') stamp = 'unreadable';
    }
    if (stamp === this.#stamp) return;
    this.#stamp = stamp;
    this.#isChanged = true;
    try {
      this.#tokens = readTokenFile(this.#file);
    } catch (error) {
      // A file that cannot be parsed contains no valid token; the gateway's own token continues to work.
      this.#tokens = [];
      this.log.error({ err: error }, 'the named tokens cannot be read; none is accepted');
    }
  }
}
