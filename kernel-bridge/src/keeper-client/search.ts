/**
 * Retries a keeper until it answers or has ended. A keeper that hangs, for example on its disk, or was stopped, still has
 * the kernel and all its output: giving up would lose both needlessly.
 */
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import { pause } from '@tpulab/platform/waiting.js';

/**
 * The wait between two attempts, which doubles. Each attempt itself waits for an answer, so most of the time is spent
 * listening.
 */
const FIRST_WAIT_MS = 100;
const MAX_WAIT_MS = 10_000;

interface KeeperSearchOptions {
  /** One attempt. False: neither the keeper nor its kernel is running. */
  attempt(signal: AbortSignal): Promise<boolean>;
  /** Called after each attempt in which the keeper runs but has not answered completely; another attempt follows. */
  silent(error: KeeperError): void;
}

type SearchEnd =
  | { readonly how: 'found' | 'gone' | 'stopped' }
  | { readonly how: 'failed'; readonly error: unknown };

export class KeeperSearch implements AsyncDisposable {
  /** Never rejects. */
  readonly ended: Promise<SearchEnd>;
  /** Resolves when the first attempt is over, with any result. */
  readonly firstTry: Promise<void>;
  readonly #stop = new AbortController();

  constructor(private readonly options: KeeperSearchOptions) {
    let tried = (): void => undefined;
    this.firstTry = new Promise(resolve => (tried = resolve));
    this.ended = this.#run(tried).finally(tried);
  }

  /** Ends the search, and resolves when no part of it runs any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.ended;
  }

  #isStopped(): boolean {
    return this.#stop.signal.aborted;
  }

  async #run(tried: () => void): Promise<SearchEnd> {
    const { signal } = this.#stop;
    for (let waitMs = FIRST_WAIT_MS; !this.#isStopped(); waitMs = Math.min(2 * waitMs, MAX_WAIT_MS)) {
      try {
        return { how: (await this.options.attempt(signal)) ? 'found' : 'gone' };
      } catch (error) {
        if (this.#isStopped()) break;
        if (!isSilence(error)) return { how: 'failed', error };
        this.options.silent(error);
      }
      tried();
      await pause(waitMs, signal);
    }
    return { how: 'stopped' };
  }
}

/** Whether the error means that the keeper runs. Any other failure means that it has ended, or will not recover. */
function isSilence(error: unknown): error is KeeperError {
  return error instanceof KeeperError && ['keeper_timeout', 'keeper_disconnected'].includes(error.code);
}
